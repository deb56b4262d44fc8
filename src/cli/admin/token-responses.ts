import { type Static, Type } from 'typebox'
import { instant, nullable } from './responses.ts'

const token = Type.Object({
  id: Type.String(),
  name: Type.String(),
  hint: Type.String(),
  permissions: Type.Array(Type.String()),
  workspaces: nullable(Type.Array(Type.String())),
  createdAt: instant,
  createdBy: Type.String(),
  expiresAt: instant,
  revokedAt: nullable(instant),
  lastUsedAt: nullable(instant),
})
export type ShownToken = Static<typeof token>

/** The secret is null in the response to a retry. */
export const tokenIssuedResponse = Type.Object({ token, secret: nullable(Type.String()) })
export const tokenResponse = Type.Object({ token })
export const tokensResponse = Type.Object({ tokens: Type.Array(token), cursor: Type.Optional(Type.String()) })

export const whoamiResponse = Type.Object({
  actor: Type.String(),
  kind: Type.String(),
  name: nullable(Type.String()),
  permissions: Type.Array(Type.String()),
  workspaces: nullable(Type.Array(Type.String())),
  expiresAt: nullable(instant),
})
