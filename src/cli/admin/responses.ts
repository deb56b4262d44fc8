import { type Static, type TSchema, Type } from 'typebox'
import { Value } from 'typebox/value'
import type { AdminClient, AdminResponse } from './client.ts'

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
export const issuedResponse = Type.Object({ key, secret: nullable(Type.String()) })
export const keyResponse = Type.Object({ key })
const gateways = Type.Object({
  known: Type.Integer(),
  confirmed: Type.Integer(),
  verifying: Type.Integer(),
  silent: Type.Array(Type.Object({ name: Type.String(), lastSeenAt: instant })),
})
export type ShownGateways = Static<typeof gateways>
/** Which gateways have confirmed that a key ended. An older console leaves these fields out. */
const progress = {
  announced: Type.Optional(Type.Boolean()),
  gateways: Type.Optional(nullable(gateways)),
  /** Only from a console with regions. */
  regions: Type.Optional(
    Type.Array(Type.Object({ name: Type.String(), announced: Type.Boolean(), gateways: nullable(gateways) })),
  ),
}
export const revokedResponse = Type.Object({ key, ...progress })
/** Of a suspension, resumption or edit. */
export const changedResponse = Type.Object({
  key,
  committedAt: Type.Optional(nullable(instant)),
  ...progress,
})
export const revokedAllResponse = Type.Object({
  revoked: Type.Integer({ minimum: 0 }),
  ...progress,
  cursor: Type.Optional(Type.String()),
})
export const rotatedResponse = Type.Object({
  key,
  secret: nullable(Type.String()),
  replaced: key,
  ...progress,
})
export const keysResponse = Type.Object({ keys: Type.Array(key), cursor: Type.Optional(Type.String()) })
export const totalResponse = Type.Object({ total: Type.Optional(Type.Integer({ minimum: 0 })) })
const count = Type.Integer({ minimum: 0 })
const workspace = Type.Object({
  workspaceId: Type.String(),
  keys: Type.Object({ active: count, retiring: count, suspended: count, expired: count, revoked: count }),
  lastUsedAt: nullable(instant),
})
export type ShownWorkspace = Static<typeof workspace>
export const workspacesResponse = Type.Object({
  workspaces: Type.Array(workspace),
  cursor: Type.Optional(Type.String()),
})
const counts = Type.Record(Type.String(), count)
export const usageResponse = Type.Object({
  step: Type.Union([Type.Literal('hour'), Type.Literal('day')]),
  usage: Type.Array(Type.Object({ at: instant, requests: count, byCode: counts, byRoute: counts })),
})
export type ShownUsage = Static<typeof usageResponse>
export const syncResponse = Type.Object({ synced: count, total: count, cursor: Type.Optional(Type.String()) })

export const importResponse = Type.Object({
  results: Type.Array(
    Type.Object({
      status: Type.Union([Type.Literal('imported'), Type.Literal('exists'), Type.Literal('invalid')]),
      error: Type.Optional(Type.String()),
    }),
  ),
})
export type ImportResponse = Static<typeof importResponse>

export function readResponse<Schema extends TSchema>(
  client: AdminClient,
  schema: Schema,
  { json }: AdminResponse,
): Static<Schema> {
  if (!Value.Check(schema, json)) throw client.notUnderstood()
  return json
}
