import { type RouteConfig, WORKSPACE_PARAMETER } from '../../../domain/route.ts'
import { UNKNOWN_ADDRESS } from '../pages/api-page.ts'

/**
 * A command that shows a new key at work: at the endpoint that tells what the key is, or at the first that it may ask.
 * A key's characters mean themselves to a shell.
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

/** Whether nothing is open once the workspace is filled in. */
function isPlain(path: string): boolean {
  return !path.replace(`{${WORKSPACE_PARAMETER}}`, '').includes('{')
}
