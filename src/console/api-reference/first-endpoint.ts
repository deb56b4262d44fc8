import { type RouteConfig, WORKSPACE_PARAMETER } from '../../domain/route/route.ts'
import { UNKNOWN_ADDRESS } from './code-examples.ts'

/** The URL to try a new key at: the endpoint without a scope, or the first that the key's scopes allow. */
export function firstEndpoint(
  { workspaceId, scopes }: { readonly workspaceId: string; readonly scopes: readonly string[] },
  routes: readonly RouteConfig[],
  gatewayUrl: string | null,
): string {
  const open = routes.filter(
    ({ path, scope }) => isPlain(path) && (scope === undefined || scopes.includes(scope)),
  )
  const route = open.find(({ scope }) => scope === undefined) ?? open[0]
  const path = (route?.path ?? '/').replace(`{${WORKSPACE_PARAMETER}}`, workspaceId)
  return `${gatewayUrl ?? UNKNOWN_ADDRESS}${path}`
}

/** Whether the path has no parameter besides the workspace. */
function isPlain(path: string): boolean {
  return !path.replace(`{${WORKSPACE_PARAMETER}}`, '').includes('{')
}
