import { Type } from 'typebox'
import { PERMISSIONS } from '../platform/access/permission.ts'
import {
  actorOf,
  holds,
  type Principal,
  principalNameOf,
  workspacesOf,
} from '../platform/access/principal.ts'
import { type AdminCall, declareCalls } from '../platform/http/admin-call.ts'
import { principalOf } from '../platform/http/request-context.ts'
import { instantOrNull, textOrNull } from '../platform/http/response-fields.ts'

const adminCall = declareCalls<unknown>()

const caller = Type.Object(
  {
    actor: Type.String(),
    kind: Type.Enum(['operator', 'token', 'person']),
    name: textOrNull,
    permissions: Type.Array(Type.Enum([...PERMISSIONS])),
    workspaces: Type.Union([Type.Array(Type.String()), Type.Null()], { description: 'Null for all' }),
    expiresAt: Type.Union(instantOrNull.anyOf, {
      description: 'Null if it does not expire by itself; a person’s session ends when it is idle',
    }),
  },
  { title: 'Caller' },
)

/** Who makes the request, without the prefix. Every caller may know that. */
export const WHOAMI_CALLS: readonly AdminCall<unknown>[] = [
  adminCall({
    id: 'whoami',
    method: 'GET',
    url: '/whoami',
    operation: 'whoami',
    permission: null,
    workspaces: 'own',
    summary: 'The caller, and what it may do',
    status: 200,
    response: caller,
    handle: async (_, { request }) => whoamiJson(principalOf(request)),
  }),
]

function whoamiJson(principal: Principal) {
  return {
    actor: actorOf(principal),
    kind: principal.kind,
    name: principalNameOf(principal) ?? null,
    permissions: PERMISSIONS.filter(permission => holds(principal, permission)),
    workspaces: workspacesOf(principal),
    expiresAt: principal.kind === 'token' ? new Date(principal.token.expiresAtMs).toISOString() : null,
  }
}
