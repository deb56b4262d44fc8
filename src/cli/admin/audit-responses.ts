import { type Static, Type } from 'typebox'
import { instant, nullable } from './responses.ts'

const entry = Type.Object({
  id: Type.String(),
  at: instant,
  workspaceId: nullable(Type.String()),
  actor: Type.String(),
  action: Type.String(),
  keyId: nullable(Type.String()),
  detail: Type.Record(Type.String(), Type.Unknown()),
})
export type ShownEntry = Static<typeof entry>

export const entriesResponse = Type.Object({
  entries: Type.Array(entry),
  cursor: Type.Optional(Type.String()),
})
