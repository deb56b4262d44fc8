import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { isWorkspaceId, keyState } from '../../../domain/key/key-record.ts'
import { holdsKeyForm } from '../../../domain/key/secret.ts'
import { plainPasted } from '../../../domain/pasted-text.ts'
import type { PageDependencies } from '../../page-dependencies.ts'
import { NO_PROBLEMS, type Problems, textField } from '../../platform/html/form-fields.ts'
import { SHOWS } from '../../platform/html/guards.ts'
import { frameOf, notFound, queryOf, sendPage, workspaceOf } from '../../platform/html/page-request.ts'
import { ALL_KEYS, FIND_KEY, keysPath, WORKSPACES } from '../../platform/html/paths.ts'
import { personOfRequest } from '../../sign-in/authenticate-people.ts'
import { workspacesPage } from '../../workspaces/workspaces-page.ts'
import { isFiltered, keyQueryOf, readKeyList, searchText } from './key-list.ts'
import { keysPage } from './keys-page.ts'

const WORKSPACES_PER_PAGE = 50
/** Counted in some 20 ms. */
const MAX_KEYS_COUNTED = 50_000

/** Lists of workspaces and of keys. */
export function listRoutes(scope: FastifyInstance, sources: PageDependencies): void {
  scope.get(WORKSPACES, SHOWS, (request, reply) => listWorkspaces(sources, request, reply))
  scope.get(`${WORKSPACES}/:workspaceId/keys`, SHOWS, (request, reply) =>
    listKeys(sources, request, reply, workspaceOf(request)),
  )
  scope.get(ALL_KEYS, SHOWS, async (request, reply) => {
    if (!personOfRequest(request).administrator) throw notFound()
    return listKeys(sources, request, reply, null)
  })
}

async function listWorkspaces(
  { registry }: PageDependencies,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const { workspaces, administrator } = personOfRequest(request)
  const query = queryOf(request)
  const sent = query['workspace'] !== undefined && administrator
  const typed = plainPasted(textField(query, 'workspace'))
  const q = searchText(textField(query, 'q'))
  // A redirect leaves no entry in the browser's history.
  if ([typed, q].some(text => holdsKeyForm(text, registry.keyPrefix))) return reply.redirect(FIND_KEY, 303)
  if (sent && isWorkspaceId(typed)) return reply.redirect(keysPath(typed), 303)
  const problems: Problems = sent ? new Map([['workspace', WORKSPACE_ID_EXPECTED]]) : NO_PROBLEMS
  const cursor = textField(query, 'cursor')
  const afterId = isWorkspaceId(cursor) ? cursor : null
  const found = await registry.repository.listWorkspaces({
    workspaceIds: administrator ? null : workspaces,
    text: q === '' ? null : q,
    limit: WORKSPACES_PER_PAGE,
    afterId,
    maxKeysCounted: MAX_KEYS_COUNTED,
  })
  const frame = frameOf(request, reply, { workspaceId: null, clock: registry.clock })
  const paging = { nextCursor: found.nextAfterId, isFirstPage: afterId === null }
  const page = workspacesPage(frame, { workspaces: found.workspaces, q, ...paging, typed, problems })
  return sendPage(reply, page, sent ? 422 : 200)
}

const WORKSPACE_ID_EXPECTED =
  'Enter the id of a workspace: 1 to 128 letters, digits and the characters - . _ ~, such as ws_1'

async function listKeys(
  { registry, scopes }: PageDependencies,
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
