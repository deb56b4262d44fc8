import { type Static, Type } from 'typebox'
import { instant } from './responses.ts'

const refusal = Type.Object({
  at: instant,
  route: Type.String(),
  code: Type.String(),
  reason: Type.String(),
  keyId: Type.String(),
  requestId: Type.String(),
  address: Type.String(),
})
export type ShownRefusal = Static<typeof refusal>

export const refusalsResponse = Type.Object({
  refusals: Type.Array(refusal),
  sampled: Type.Boolean(),
  cursor: Type.Optional(Type.String()),
})
