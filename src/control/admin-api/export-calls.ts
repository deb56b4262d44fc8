import { toRecordJson } from '../../domain/wire.ts'
import type { AdminCall } from '../http/calls.ts'
import { ROWS_AT_ONCE, sendLines } from '../http/send-lines.ts'
import type { KeyPage, KeyRepository, StoredKey } from '../registry/database/key-repository.ts'
import { exportQuery } from './admin-schemas.ts'

/** Earlier than every expiry: keys in any state. */
const ANY_EXPIRY = -1

type KeyReader = { readonly repository: Pick<KeyRepository, 'listForSync'> }

/** The export of keys, without its prefix. It holds digests, and never a secret. */
export function exportCalls({ repository }: KeyReader): AdminCall[] {
  return [
    {
      method: 'GET',
      url: '/keys/export',
      operation: 'keys_export',
      permission: 'keys:write',
      workspaces: 'all',
      schema: { querystring: exportQuery },
      handle: async (request, reply) => sendLines(request, reply, () => exportParts(repository)),
    },
  ]
}

/** In the order of ids, so that a page costs the same wherever it begins. */
async function* exportParts(repository: KeyReader['repository']): AsyncGenerator<string> {
  let afterId: string | null = null
  do {
    const page: KeyPage = await repository.listForSync({
      expiresAfterMs: ANY_EXPIRY,
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
