import { PERMISSIONS } from '../access/permission.ts'
import { actorOf, holds, nameOf, type Principal, workspacesOf } from '../access/principal.ts'
import type { AdminCall } from '../http/calls.ts'
import { principalOf } from '../http/request-context.ts'

/** Who makes the request, without the prefix. Every caller may know that. */
export function whoamiCalls(): AdminCall[] {
  return [
    {
      method: 'GET',
      url: '/whoami',
      operation: 'whoami',
      permission: null,
      workspaces: 'own',
      handle: async request => whoamiJson(principalOf(request)),
    },
  ]
}

function whoamiJson(principal: Principal) {
  return {
    actor: actorOf(principal),
    kind: principal.kind,
    name: nameOf(principal) ?? null,
    permissions: PERMISSIONS.filter(permission => holds(principal, permission)),
    /** Null for all. */
    workspaces: workspacesOf(principal),
    /** Null if it does not expire by itself; a person's session ends when it is idle. */
    expiresAt: principal.kind === 'token' ? new Date(principal.token.expiresAtMs).toISOString() : null,
  }
}
