import type { Capability } from '../platform/capability.ts'
import { notFound, requireWorkspace, SHOWS } from '../platform/html/page-request.ts'
import { keysPath, WORKSPACES } from '../platform/html/paths.ts'
import { bindCalls } from '../platform/http/calls.ts'
import { WORKSPACE_CALLS } from './api.ts'
import { showWorkspaces, startPath, type WorkspacePageParts } from './pages.ts'

export { WORKSPACE_CALLS } from './api.ts'

/** Which workspaces there are, and the way to each. */
export function createWorkspaces(parts: WorkspacePageParts): Capability {
  return {
    calls: bindCalls(WORKSPACE_CALLS, parts),
    registerPages(scope) {
      scope.get('/', SHOWS, async (request, reply) => reply.redirect(startPath(request), 303))
      scope.get(WORKSPACES, SHOWS, (_, reply) => showWorkspaces(parts, reply))
      scope.get(`${WORKSPACES}/:workspaceId`, SHOWS, async (request, reply) =>
        reply.redirect(keysPath(requireWorkspace(request)), 303),
      )
      scope.get(`${WORKSPACES}/*`, SHOWS, async () => {
        throw notFound()
      })
    },
  }
}
