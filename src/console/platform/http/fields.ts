import { type Static, type TObject, type TProperties, type TSchema, Type } from 'typebox'
import { MAX_CIDRS } from '../../../domain/form/address.ts'
import { INSTANT_EXPECTED } from '../../../domain/form/instant.ts'
import { type IdKind, idPattern, KEY_ID_EXPECTED } from '../../../domain/id-form.ts'
import {
  ALLOWED_CIDRS_EXPECTED,
  type ChosenField,
  NAME_EXPECTED,
  PLAN_EXPECTED,
  textExpected,
} from '../../../domain/key/key-fields.ts'
import { EXPIRES_AT_EXPECTED, EXPIRES_IN_DAYS_EXPECTED } from '../../../domain/key/key-life.ts'
import { KEY_STATES } from '../../../domain/key/key-record.ts'
import { eachText } from '../../../domain/key/key-texts.ts'
import type { RecordJson } from '../../../domain/wire.ts'

/**
 * Parts of the schemas of requests. A description completes `<field> must be …`: it is the error text and the
 * documentation. Schemas check types; the domain validates values, with the same words.
 */
const closed = { additionalProperties: false }

/** Query parameters are text: 1 to 200 in plain digits. */
const PAGE_LIMIT = '^(?:[1-9][0-9]?|1[0-9][0-9]|200)$'

const CURSOR_EXPECTED = 'a single cursor from an earlier response'
const LIMIT_EXPECTED = 'a single whole number from 1 to 200'

/** An object with these fields and no others. */
export function fields<Properties extends TProperties>(properties: Properties): TObject<Properties> {
  return Type.Object(properties, closed)
}

/** Clients without anything to send may send an empty object or no body. */
export function optionalFields<Properties extends TProperties>(properties: Properties) {
  return Type.Unsafe<Static<TObject<Properties>> | null>({
    ...fields(properties),
    type: ['object', 'null'],
  })
}

/** Of calls whose path says everything. */
export const noFields = optionalFields({})

export const name = Type.String({ description: NAME_EXPECTED })
export const scopes = Type.Array(Type.String(), { description: 'a list of scopes' })
/** Besides the name, what people choose when they issue, edit or import a key. */
export const chosenFields = {
  ...eachText(text =>
    Type.Optional(Type.Union([Type.String(), Type.Null()], { description: textExpected(text) })),
  ),
  allowedCidrs: Type.Optional(
    Type.Union([Type.Array(Type.String(), { maxItems: MAX_CIDRS }), Type.Null()], {
      description: ALLOWED_CIDRS_EXPECTED,
    }),
  ),
  plan: Type.Optional(Type.Union([Type.String(), Type.Null()], { description: PLAN_EXPECTED })),
} satisfies Readonly<Record<Exclude<ChosenField, 'name'>, TSchema>>
/** A client in Python and others then takes its language's own type. The domain rejects days that do not exist. */
const dateTime = { format: 'date-time' }
export const expiresAt = Type.Optional(Type.String({ ...dateTime, description: EXPIRES_AT_EXPECTED }))
export const expiresInDays = Type.Optional(Type.Number({ description: EXPIRES_IN_DAYS_EXPECTED }))
export const digest = Type.String({
  pattern: '^[0-9a-f]{64}$',
  description: 'a SHA-256 digest of 64 lower-case hexadecimal digits',
})

/** A query parameter whose value the handler checks. */
export function parameter(expected: string) {
  return Type.Optional(Type.String({ description: expected }))
}

/** Those of a list that says what each must be. */
export function parametersOf<Name extends string>(expected: Readonly<Record<Name, string>>) {
  const schemas = Object.entries<string>(expected).map(([name, text]) => [name, parameter(text)])
  // Object.entries() forgets the type of names.
  return Object.fromEntries(schemas) as Record<Name, ReturnType<typeof parameter>>
}

export const keyIdParameter = parameter(KEY_ID_EXPECTED)
export const instantParameter = Type.Optional(Type.String({ ...dateTime, description: INSTANT_EXPECTED }))

/** Answers once at least one gateway is known and all have confirmed, or after a second. */
export const waitQuery = fields({
  wait: Type.Optional(Type.Literal('1', { description: '1 or omitted' })),
})
export type WaitQuery = Static<typeof waitQuery>

export const limit = Type.Optional(Type.String({ pattern: PAGE_LIMIT, description: LIMIT_EXPECTED }))

/** @param pattern of an item's id, after which the page starts */
export function cursorField(pattern: string) {
  return Type.Optional(Type.String({ pattern, description: CURSOR_EXPECTED }))
}

/** Limit and cursor of a list whose items have these ids. */
export function pageQuery(kind: IdKind) {
  return fields({ limit, cursor: cursorField(`^${idPattern(kind)}$`) })
}
export type PageQuery = Static<ReturnType<typeof pageQuery>>

/** A page of a list. */
export function pageSchema<Name extends string, Item extends TSchema>(items: Name, item: Item) {
  // A computed name has lost its type.
  const list = { [items]: Type.Array(item) } as Record<Name, ReturnType<typeof Type.Array<Item>>>
  return Type.Object({
    ...list,
    hasMore: Type.Boolean(),
    cursor: Type.Optional(Type.String({ description: 'Of the next page; absent on the last' })),
  })
}

/** Its content, with the cursor of the next page. */
export function listJson<Items extends object>(items: Items, nextCursor: string | null) {
  return nextCursor === null ? { ...items, hasMore: false } : { ...items, hasMore: true, cursor: nextCursor }
}

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
  plan: Type.Union([Type.String(), Type.Null()], {
    description: 'The plan whose rate limits hold; null for those of keys without a plan',
  }),
  rotatedFrom: textOrNull,
  replacedBy: textOrNull,
  version: Type.Integer({
    minimum: 1,
    description: 'Grows with every change; `If-Match` of an edit names it',
  }),
} satisfies Readonly<Record<keyof RecordJson, TSchema>>

export const key = Type.Object(
  {
    ...RECORD_FIELDS,
    state: Type.Enum([...KEY_STATES]),
    lastUsedAt: instantOrNull,
  },
  { title: 'Key' },
)

export const count = Type.Integer({ minimum: 0 })

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

const requestsBy = (description: string) => Type.Record(Type.String(), count, { description })

/** What is left of a rate limit. */
export const limitWindow = Type.Object(
  {
    policy: Type.String({ description: 'Its name' }),
    plan: Type.Union([Type.String(), Type.Null()], {
      description: 'Whose policy it is; null: of keys without a plan',
    }),
    per: Type.Union([Type.Literal('workspace'), Type.Literal('key')]),
    region: Type.Union([Type.String(), Type.Null()], { description: 'Null if the console names no regions' }),
    limit: count,
    remaining: Type.Union([count, Type.Null()], { description: 'Requests; null: unknown' }),
    resetsAt: Type.Union([instant, Type.Null()], {
      description: 'Null: the window begins with the next request, or unknown',
    }),
  },
  { title: 'LimitWindow' },
)

/** The requests of an hour or a day. */
export const usagePoint = Type.Object({
  at: instant,
  requests: count,
  byCode: requestsBy('`ok`, and the codes of requests that were not served'),
  byRoute: requestsBy('Names of routes'),
})
