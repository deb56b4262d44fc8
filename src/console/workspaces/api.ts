import { toInstant } from '../../domain/form/instant.ts'
import { isSearchText, KEY_QUERY_EXPECTED } from '../keys/index.ts'
import { allowedWorkspaces } from '../platform/access/principal.ts'
import { invalidField } from '../platform/http/api-error.ts'
import { type AdminCall, declareCalls } from '../platform/http/calls.ts'
import { cursorField, fields, limit, listJson, pageSchema, parameter } from '../platform/http/fields.ts'
import { workspace } from '../platform/http/items.ts'
import { readPage, requirePrincipal } from '../platform/http/request-context.ts'
import { listWorkspaces, type WorkspaceSources, type WorkspaceSummary } from './rows.ts'

const adminCall = declareCalls<WorkspaceSources>()

const WORKSPACES = adminCall({
  id: 'listWorkspaces',
  method: 'GET',
  url: '/workspaces',
  operation: 'workspaces',
  permission: 'keys:read',
  workspaces: 'own',
  summary: 'Workspaces with keys, by id, and the number of their keys in each state',
  query: fields({
    q: parameter(KEY_QUERY_EXPECTED.q),
    limit,
    cursor: cursorField('^[A-Za-z0-9._~-]{1,128}$'),
  }),
  response: pageSchema('workspaces', workspace),
  handle: async (sources, { request, query: { q, ...page } }) => {
    if (q !== undefined && !isSearchText(q)) throw invalidField('q', KEY_QUERY_EXPECTED.q)
    const { workspaces, nextAfterId } = await listWorkspaces(sources, {
      workspaceIds: allowedWorkspaces(requirePrincipal(request)),
      text: q ?? null,
      ...readPage(page),
      maxKeysCounted: null,
    })
    return listJson({ workspaces: workspaces.map(workspaceJson) }, nextAfterId)
  },
})

/** The calls about workspaces, without their prefix. */
export const WORKSPACE_CALLS: readonly AdminCall<WorkspaceSources>[] = [WORKSPACES]

function workspaceJson({ workspaceId, keys, lastUsedAtMs }: WorkspaceSummary) {
  return { workspaceId, keys, lastUsedAt: toInstant(lastUsedAtMs) }
}
