import type { Capability } from '../platform/capability.ts'
import { notFound, requireWorkspace, SHOWS } from '../platform/html/page-request.ts'
import { keysPath, WORKSPACES } from '../platform/html/paths.ts'
import { showWorkspaces, startPath, type WorkspacePageParts } from './pages.ts'

/** Which workspaces there are, and the way to each. */
export function createWorkspaces(parts: WorkspacePageParts): Capability {
  return {
    registerPages(scope) {
      scope.get('/', SHOWS, async (request, reply) => reply.redirect(startPath(request), 303))
      scope.get(WORKSPACES, SHOWS, (request, reply) => showWorkspaces(parts, request, reply))
      scope.get(`${WORKSPACES}/:workspaceId`, SHOWS, async (request, reply) =>
        reply.redirect(keysPath(requireWorkspace(request)), 303),
      )
      scope.get(`${WORKSPACES}/*`, SHOWS, async () => {
        throw notFound()
      })
    },
  }
}
