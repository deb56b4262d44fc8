import { type Static, Type } from 'typebox'

export const GATEWAY_EXPECTED = '1 to 320 characters of A-Z, a-z, 0-9 and "-", ".", "_", ":"'
export const SEQUENCE_EXPECTED = 'a whole number from 1'
export const USED_EXPECTED =
  'an object of at most 10000 key ids, each with whole milliseconds since the epoch'

/** Of a report, all lists together. A gateway with more sends several reports. */
export const MAX_ENTRIES = 10_000
export const ENTRIES_EXPECTED = `A report has at most ${MAX_ENTRIES} entries; send several, each with its own sequence`

const GATEWAY = /^[A-Za-z0-9._:-]{1,320}$/

/** Whether this names a gateway's process. */
export function isGatewayName(value: unknown): value is string {
  return typeof value === 'string' && GATEWAY.test(value)
}

const listOf = (entries: string) =>
  Type.Array(Type.Unknown(), {
    maxItems: MAX_ENTRIES,
    description: `a list of at most ${MAX_ENTRIES} ${entries}`,
  })

/** A report of a gateway as it arrives. Entries of the lists are validated one by one: a wrong one keeps no other out. */
export const usageReportBody = Type.Object(
  {
    used: Type.Optional(
      Type.Unsafe<Record<string, number>>({
        type: 'object',
        maxProperties: MAX_ENTRIES,
        additionalProperties: { type: 'integer', minimum: 0 },
        description: USED_EXPECTED,
      }),
    ),
    /** Identifies a process: a restarted gateway is another one. A gateway of the release before sends `used` alone. */
    gateway: Type.Optional(Type.Unknown()),
    sequence: Type.Optional(
      Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER, description: SEQUENCE_EXPECTED }),
    ),
    counts: Type.Optional(listOf('counts')),
    refusals: Type.Optional(listOf('refusals')),
    omittedRefusals: Type.Optional(listOf('workspaces')),
    lost: Type.Optional(Type.Integer({ minimum: 0, description: 'a whole number' })),
  },
  { additionalProperties: false },
)
export type UsageReportBody = Static<typeof usageReportBody>

/** Requests of one key, route and code in one minute. */
export interface Count {
  readonly workspaceId: string
  /** Null where the gateway had no room to count the key by itself. */
  readonly keyId: string | null
  readonly route: string
  /** `ok`, or the code that the client saw. */
  readonly code: string
  /** Since the epoch. */
  readonly minute: number
  readonly count: number
}

export interface Refusal {
  readonly workspaceId: string
  readonly atMs: number
  readonly keyId: string
  readonly route: string
  /** As the client saw it. */
  readonly code: string
  /** Why, in our words: another workspace is `not_found` to the client. */
  readonly reason: string
  readonly requestId: string
  /** The network of the client's address. */
  readonly address: string
}

/** The valid part of a report. */
export interface CheckedReport {
  readonly gateway: string
  readonly sequence: number
  readonly counts: readonly Count[]
  readonly refusals: readonly Refusal[]
  /** Workspaces of which the gateway left refusals out. */
  readonly omitted: readonly string[]
}

/** How many entries of each list are not valid. */
export interface RefusedEntries extends Readonly<Record<RefusedEntry['list'], number>> {
  /** The requests that the refused counts stand for. */
  readonly requests: number
  readonly first: readonly RefusedEntry[]
}

/** An entry that is not valid. */
export interface RefusedEntry {
  readonly list: 'counts' | 'refusals' | 'omittedRefusals'
  readonly index: number
  readonly error: string
}
