import { type RouteConfig, WORKSPACE_PARAMETER } from '../../../domain/route.ts'
import { UNKNOWN_ADDRESS } from '../pages/api-page.ts'

/**
 * A curl command for a new key: for the endpoint without a scope, or the first that the key's scopes allow. A key needs
 * no quoting in a shell.
 */
export function firstCommand(
  { workspaceId, scopes }: { readonly workspaceId: string; readonly scopes: readonly string[] },
  secret: string,
  routes: readonly RouteConfig[],
  gatewayUrl: string | null,
): string {
  const open = routes.filter(
    ({ path, scope }) => isPlain(path) && (scope === undefined || scopes.includes(scope)),
  )
  const route = open.find(({ scope }) => scope === undefined) ?? open[0]
  const path = (route?.path ?? '/').replace(`{${WORKSPACE_PARAMETER}}`, workspaceId)
  return `curl -sS "${gatewayUrl ?? UNKNOWN_ADDRESS}${path}" \\\n  -H 'Authorization: Bearer ${secret}'`
}

/** Whether the path has no parameter besides the workspace. */
function isPlain(path: string): boolean {
  return !path.replace(`{${WORKSPACE_PARAMETER}}`, '').includes('{')
}
