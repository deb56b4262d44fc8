import type { AdminCall } from '../http/calls.ts'
import { callerOf } from '../http/request-context.ts'
import type { OperationCounter } from '../registry/operations/operation-counter.ts'
import { revokeAllKeys } from '../registry/operations/revoke-all.ts'
import type { Registry } from '../registry/registry.ts'
import { emptyBody, waitQuery } from './admin-schemas.ts'
import { confirmationsJson } from './key-json.ts'
import { mustWait, workspaceIdOf } from './request-parameters.ts'

/** The calls that change many keys, without their prefix. Repeating one is safe without an Idempotency-Key. */
export function bulkCalls(registry: Registry, count: OperationCounter): AdminCall[] {
  return [
    {
      method: 'POST',
      url: '/workspaces/:workspaceId/revoke-all',
      operation: 'revoke_all',
      permission: 'keys:write',
      workspaces: 'own',
      schema: { body: emptyBody, querystring: waitQuery },
      handle: async request => {
        const workspaceId = workspaceIdOf(request)
        const context = { caller: callerOf(request), mustWait: mustWait(request) }
        const run = () => revokeAllKeys(registry, workspaceId, context)
        const { revoked, announced, gateways } = await count('revoke_all', run)
        return { revoked, announced, gateways: confirmationsJson(gateways) }
      },
    },
  ]
}
