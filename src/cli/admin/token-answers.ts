import { type Static, Type } from 'typebox'
import { instant, nullable } from './answers.ts'

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
export const tokenIssuedAnswer = Type.Object({ token, secret: nullable(Type.String()) })
export const tokenAnswer = Type.Object({ token })
export const tokensAnswer = Type.Object({ tokens: Type.Array(token), cursor: Type.Optional(Type.String()) })

export const whoamiAnswer = Type.Object({
  actor: Type.String(),
  kind: Type.String(),
  name: nullable(Type.String()),
  permissions: Type.Array(Type.String()),
  workspaces: nullable(Type.Array(Type.String())),
  expiresAt: nullable(instant),
})
