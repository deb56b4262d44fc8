import type { Capability } from '../platform/capability.ts'
import { bindCalls } from '../platform/http/calls.ts'
import { WORKSPACE_CALLS } from './api.ts'
import { type WorkspacePageParts, workspaceRoutes } from './pages.ts'

export { WORKSPACE_CALLS } from './api.ts'

/** Which workspaces there are, and the way to each. */
export function createWorkspaces(parts: WorkspacePageParts): Capability {
  return {
    calls: bindCalls(WORKSPACE_CALLS, parts),
    registerPages: scope => workspaceRoutes(scope, parts),
  }
}
