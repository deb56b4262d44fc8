import { Type } from 'typebox'
import { KEY_STATES } from '../../../domain/key/key-record.ts'
import { eachText } from '../../../domain/key/key-texts.ts'

/** Parts of the schemas of responses that several calls share. A schema with a title is a component of the document. */
export const instant = Type.String({ format: 'date-time' })
export const instantOrNull = Type.Union([instant, Type.Null()])
export const textOrNull = Type.Union([Type.String(), Type.Null()])

/** A key as it is stored, without its digest. */
export const RECORD_FIELDS = {
  id: Type.String({ description: '`key_` and a ULID' }),
  workspaceId: Type.String(),
  name: Type.String(),
  ...eachText(() => textOrNull),
  scopes: Type.Array(Type.String()),
  hint: Type.String({ description: 'Prefix and last four characters of the key' }),
  createdAt: instant,
  createdBy: Type.String(),
  expiresAt: instant,
  revokedAt: instantOrNull,
  suspendedAt: instantOrNull,
  allowedCidrs: Type.Array(Type.String(), { description: 'Empty if every address is allowed' }),
  rotatedFrom: textOrNull,
  replacedBy: textOrNull,
  version: Type.Integer({
    minimum: 1,
    description: 'Grows with every change; `If-Match` of an edit names it',
  }),
}

export const key = Type.Object(
  {
    ...RECORD_FIELDS,
    state: Type.Enum([...KEY_STATES]),
    lastUsedAt: instantOrNull,
  },
  { title: 'Key' },
)

const count = Type.Integer({ minimum: 0 })

export const gateways = Type.Union([
  Type.Object(
    {
      known: Type.Integer({ minimum: 0, description: 'Gateways that reported within the last minute' }),
      confirmed: Type.Integer({ minimum: 0, description: 'Of these, those that applied the change' }),
      verifying: Type.Integer({
        minimum: 0,
        description: 'Of these, those that verify each key at the console before they accept it',
      }),
      silent: Type.Array(Type.Object({ name: Type.String(), lastSeenAt: instant }), {
        description: 'Of these, those that have not confirmed the change',
      }),
    },
    { title: 'Gateways' },
  ),
  Type.Null(),
])

export const regions = Type.Optional(
  Type.Array(
    Type.Object({ name: Type.String(), announced: Type.Boolean(), gateways }, { title: 'RegionProgress' }),
    { description: 'The same for each region; absent if the settings of the console name none' },
  ),
)

/** How far a change has come. */
export const PROGRESS_FIELDS = {
  regions,
  announced: Type.Boolean(),
  committedAt: instantOrNull,
  announcedAt: instantOrNull,
  gateways,
}

export const secret = Type.Union([Type.String(), Type.Null()], {
  description: 'In this response and nowhere else; null if the request was a repetition',
})

/** The number of keys in each state. */
export const keyCounts = Type.Object(
  { active: count, retiring: count, suspended: count, expired: count, revoked: count },
  { title: 'KeyCounts' },
)
