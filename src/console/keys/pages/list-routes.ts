import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { keyState } from '../../../domain/key/key-record.ts'
import { holdsKeyForm } from '../../../domain/key/secret.ts'
import { textField } from '../../platform/html/form-fields.ts'
import { SHOWS } from '../../platform/html/guards.ts'
import { frameOf, notFound, queryOf, sendPage, workspaceOf } from '../../platform/html/page-request.ts'
import { ALL_KEYS, FIND_KEY, WORKSPACES } from '../../platform/html/paths.ts'
import { personOfRequest } from '../../platform/html/signed-in.ts'
import { isFiltered, keyQueryOf, readKeyList } from './key-list-query.ts'
import type { KeyPageParts } from './key-page-parts.ts'
import { keysPage } from './keys-page.ts'

/** Lists of keys. */
export function listRoutes(scope: FastifyInstance, sources: KeyPageParts): void {
  scope.get(`${WORKSPACES}/:workspaceId/keys`, SHOWS, (request, reply) =>
    listKeys(sources, request, reply, workspaceOf(request)),
  )
  scope.get(ALL_KEYS, SHOWS, async (request, reply) => {
    if (!personOfRequest(request).administrator) throw notFound()
    return listKeys(sources, request, reply, null)
  })
}

async function listKeys(
  { registry, scopes }: KeyPageParts,
  request: FastifyRequest,
  reply: FastifyReply,
  workspaceId: string | null,
): Promise<FastifyReply> {
  const { repository, clock, keyPrefix } = registry
  const list = readKeyList(queryOf(request), Object.keys(scopes))
  // A redirect leaves no entry in the browser's history.
  if (holdsKeyForm(list.q, keyPrefix)) return reply.redirect(FIND_KEY, 303)
  const nowMs = clock.wallMs()
  const query = keyQueryOf(list, { workspaceId, cursor: textField(queryOf(request), 'cursor'), nowMs })
  const found = await repository.search(query)
  const keys = found.keys.map(key => ({ ...key, state: keyState(key.record, nowMs) }))
  const counts = workspaceId === null ? null : await repository.countInWorkspace(workspaceId)
  // Larger workspaces are searched page by page only: counting all matches would take too long.
  const isCounted = isFiltered(list) && counts !== null && counts.states !== null
  const matches = isCounted ? await repository.count(query) : null
  const frame = frameOf(request, reply, { workspaceId, clock })
  const paging = { nextCursor: found.nextCursor, isFirstPage: query.after === null }
  const view = { workspaceId, keys, list, scopes: Object.keys(scopes), counts, matches, ...paging }
  return sendPage(reply, keysPage(frame, view))
}
