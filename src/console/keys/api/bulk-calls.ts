import { Type } from 'typebox'
import { isAnnounced } from '../../announcing/region-outboxes.ts'
import { type AdminCall, declareCalls } from '../../platform/http/admin-call.ts'
import { callerOf } from '../../platform/http/request-context.ts'
import { cursorField, fields, noFields, ULID, waitQuery } from '../../platform/http/request-fields.ts'
import { mustWait, workspaceIdOf } from '../../platform/http/request-parameters.ts'
import { gateways, regions } from '../../platform/http/response-fields.ts'
import type { KeyParts } from '../operations/operation-counter.ts'
import { revokeAllKeys } from '../operations/revoke-all.ts'
import { confirmationsJson, regionsJson } from './key-json.ts'

const adminCall = declareCalls<KeyParts>()

/** The calls that change many keys, without their prefix. Repeating one is safe without an Idempotency-Key. */
export const BULK_CALLS: readonly AdminCall<KeyParts>[] = [
  adminCall({
    id: 'revokeAllKeys',
    method: 'POST',
    url: '/workspaces/:workspaceId/revoke-all',
    operation: 'revoke_all',
    permission: 'keys:write',
    workspaces: 'own',
    summary: 'Revokes every active, retiring and suspended key of a workspace',
    description: 'While the response has `hasMore`, repeat the call with its `cursor`: some keys are left.',
    query: fields({ ...waitQuery.properties, cursor: cursorField(`^key_${ULID}$`) }),
    body: noFields,
    status: 200,
    response: Type.Object({
      revoked: Type.Integer({ minimum: 0, description: 'Keys that this call revoked' }),
      announced: Type.Boolean(),
      gateways,
      regions,
      hasMore: Type.Optional(Type.Literal(true, { description: 'Some keys are left for another call' })),
      cursor: Type.Optional(Type.String({ description: 'Of the next call; absent from the last response' })),
    }),
    errors: ['not_found'],
    handle: async ({ registry, count }, { request, query }) => {
      const workspaceId = workspaceIdOf(request)
      const context = { caller: callerOf(request), mustWait: mustWait(query), untilId: query.cursor ?? null }
      const run = () => revokeAllKeys(registry, workspaceId, context)
      const outcome = await count('revoke_all', run)
      const { revoked, announced, gateways: confirmations, leftUntilId } = outcome
      return {
        revoked,
        announced: isAnnounced(announced),
        gateways: confirmationsJson(confirmations),
        ...regionsJson(announced, confirmations),
        ...(leftUntilId === null ? {} : { hasMore: true as const, cursor: leftUntilId }),
      }
    },
  }),
]
