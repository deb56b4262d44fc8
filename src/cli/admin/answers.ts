import { type Static, type TSchema, Type } from 'typebox'
import { Value } from 'typebox/value'
import type { AdminAnswer, AdminClient } from './client.ts'

/** The parts of the admin API's responses that the commands show. Fields that a newer console adds are ignored. */
export const instant = Type.String({ pattern: '^\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\d' })
export const nullable = <Schema extends TSchema>(schema: Schema) => Type.Union([schema, Type.Null()])

const key = Type.Object({
  id: Type.String(),
  workspaceId: Type.String(),
  name: Type.String(),
  scopes: Type.Array(Type.String()),
  hint: Type.String(),
  createdAt: instant,
  expiresAt: instant,
  revokedAt: nullable(instant),
  state: Type.String(),
  lastUsedAt: nullable(instant),
  /** An older console leaves these out. */
  description: Type.Optional(nullable(Type.String())),
  allowedCidrs: Type.Optional(Type.Array(Type.String())),
  suspendedAt: Type.Optional(nullable(instant)),
  createdBy: Type.Optional(Type.String()),
  rotatedFrom: Type.Optional(nullable(Type.String())),
  replacedBy: Type.Optional(nullable(Type.String())),
  version: Type.Optional(Type.Integer({ minimum: 1 })),
})
export type ShownKey = Static<typeof key>

/** The secret is null in the response to a retry: the first response held it. */
export const issuedAnswer = Type.Object({ key, secret: nullable(Type.String()) })
export const keyAnswer = Type.Object({ key })
const gateways = Type.Object({
  known: Type.Integer(),
  confirmed: Type.Integer(),
  verifying: Type.Integer(),
  silent: Type.Array(Type.Object({ name: Type.String(), lastSeenAt: instant })),
})
export type ShownGateways = Static<typeof gateways>
/** Which gateways have confirmed that a key ended. An older console leaves these fields out. */
const progress = { announced: Type.Optional(Type.Boolean()), gateways: Type.Optional(nullable(gateways)) }
export const revokedAnswer = Type.Object({ key, ...progress })
/** Of a suspension, resumption or edit. */
export const changedAnswer = Type.Object({
  key,
  committedAt: Type.Optional(nullable(instant)),
  ...progress,
})
export const revokedAllAnswer = Type.Object({ revoked: Type.Integer({ minimum: 0 }), ...progress })
export const rotatedAnswer = Type.Object({
  key,
  secret: nullable(Type.String()),
  replaced: key,
  ...progress,
})
export const keysAnswer = Type.Object({ keys: Type.Array(key), cursor: Type.Optional(Type.String()) })
const count = Type.Integer({ minimum: 0 })
const workspace = Type.Object({
  workspaceId: Type.String(),
  keys: Type.Object({ active: count, retiring: count, suspended: count, expired: count, revoked: count }),
  lastUsedAt: nullable(instant),
})
export type ShownWorkspace = Static<typeof workspace>
export const workspacesAnswer = Type.Object({
  workspaces: Type.Array(workspace),
  cursor: Type.Optional(Type.String()),
})
const counts = Type.Record(Type.String(), count)
export const usageAnswer = Type.Object({
  step: Type.Union([Type.Literal('hour'), Type.Literal('day')]),
  usage: Type.Array(Type.Object({ at: instant, requests: count, byCode: counts, byRoute: counts })),
})
export type ShownUsage = Static<typeof usageAnswer>
export const syncAnswer = Type.Object({ synced: count, total: count, cursor: Type.Optional(Type.String()) })

export const importAnswer = Type.Object({
  results: Type.Array(
    Type.Object({
      status: Type.Union([Type.Literal('imported'), Type.Literal('exists'), Type.Literal('invalid')]),
      error: Type.Optional(Type.String()),
    }),
  ),
})
export type ImportAnswer = Static<typeof importAnswer>

export function readAnswer<Schema extends TSchema>(
  client: AdminClient,
  schema: Schema,
  { json }: AdminAnswer,
): Static<Schema> {
  if (!Value.Check(schema, json)) throw client.notUnderstood()
  return json
}
