import { Type } from 'typebox'
import { toRecordJson } from '../../../domain/wire.ts'
import { type AdminCall, declareCalls } from '../../platform/http/admin-call.ts'
import { fields } from '../../platform/http/request-fields.ts'
import { RECORD_FIELDS } from '../../platform/http/response-fields.ts'
import { ROWS_AT_ONCE, sendLines } from '../../platform/http/send-lines.ts'
import type { KeyParts } from '../operations/operation-counter.ts'
import type { KeyPage, KeyRepository, StoredKey } from '../rows/key-repository.ts'

const adminCall = declareCalls<KeyParts>()

/** The export of keys, without its prefix. It holds digests, and never a secret. */
export const EXPORT_CALLS: readonly AdminCall<KeyParts>[] = [
  adminCall({
    id: 'exportKeys',
    method: 'GET',
    url: '/keys/export',
    operation: 'keys_export',
    permission: 'keys:write',
    workspaces: 'all',
    summary: 'Every key of every workspace with its digest, oldest first',
    query: fields({}),
    status: 200,
    format: 'lines',
    response: Type.Object({ digest: Type.String(), ...RECORD_FIELDS }, { title: 'ExportedKey' }),
    handle: async ({ registry }, { request, reply }) =>
      sendLines(request, reply, () => exportParts(registry.repository)),
  }),
]

/** In the order of ids, so that a page costs the same wherever it begins. */
async function* exportParts(repository: Pick<KeyRepository, 'listForSync'>): AsyncGenerator<string> {
  let afterId: string | null = null
  do {
    const page: KeyPage = await repository.listForSync({
      expiresAfterMs: null,
      limit: ROWS_AT_ONCE,
      afterId,
    })
    if (page.keys.length > 0) yield page.keys.map(exportLine).join('')
    afterId = page.nextAfterId
  } while (afterId !== null)
}

function exportLine({ digest, record }: StoredKey): string {
  return `${JSON.stringify({ digest, ...toRecordJson(record) })}\n`
}
