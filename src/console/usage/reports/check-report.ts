import { sql } from 'kysely'
import { LRUCache } from 'lru-cache'
import { Type } from 'typebox'
import { Compile } from 'typebox/compile'
import { atMost } from '../../../domain/bounded.ts'
import { isKeyId, SHORT_NAME } from '../../../domain/id-form.ts'
import { isWorkspaceId } from '../../../domain/key/key-record.ts'
import type { LimitUse } from '../../../domain/rate-limit.ts'
import { isCount } from '../../../domain/wire.ts'
import type { Database } from '../../platform/database/database.ts'
import { listAsRows } from '../../platform/database/query-parts.ts'

const MINUTE_MS = 60_000
/** A gateway's clock may be ahead by this much. */
const CLOCK_TOLERANCE_MS = 10 * MINUTE_MS
/** Less than hours are kept: every accepted count still has its place. */
const OLDEST_COUNT_MS = 13 * 86_400_000
const MAX_COUNT = 1_000_000_000
/** No window ends later: a month, and a day for a clock in the wrong one. */
const LATEST_END_MS = 32 * 86_400_000
/** Refused entries that the answer names; of the others it says how many there are. */
const MAX_NAMED = 20

export const LISTS = ['counts', 'refusals', 'omittedRefusals', 'limits'] as const
/** The parts of a report with entries that can be refused: its lists, and the times of use. */
export const PARTS = [...LISTS, 'used'] as const
type List = (typeof LISTS)[number]
type Part = (typeof PARTS)[number]
type Lists = Readonly<Partial<Record<List, readonly unknown[]>>>

interface SentUses {
  readonly used?: Readonly<Record<string, unknown>>
}

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

/** By key, when it was last used. */
type Uses = ReadonlyMap<string, number>

/** The valid entries of a report. */
export interface CheckedEntries {
  readonly counts: readonly Count[]
  readonly refusals: readonly Refusal[]
  /** Workspaces of which the gateway left refusals out. */
  readonly omitted: readonly string[]
  readonly limits: readonly LimitUse[]
}

/** The valid part of a report. */
export interface CheckedReport extends CheckedEntries {
  readonly gateway: string
  /** Of the gateway. */
  readonly region: string
  readonly sequence: number
}

/** How many entries of each part are not valid. */
export interface RefusedEntries extends Readonly<Record<Part, number>> {
  /** The requests that the refused counts stand for. */
  readonly requests: number
  readonly first: readonly RefusedEntry[]
}

/** An entry that is not valid. */
interface RefusedEntry {
  readonly list: Part
  readonly index: number
  readonly error: string
}

/** What is known about the keys and workspaces of a report. */
interface Known {
  /** Null for an unknown key. */
  readonly findWorkspace: (keyId: string) => string | null
  readonly hasWorkspace: (workspaceId: string) => boolean
}

export type FindKnown = (lists: Lists) => Promise<Known>

/** Separates the valid entries of a report from the others. */
export function checkReport(
  { counts = [], refusals = [], omittedRefusals = [], limits = [], used = {} }: Lists & SentUses,
  known: Known,
  nowMs: number,
): CheckedEntries & { readonly used: Uses; readonly refused: RefusedEntries } {
  const refused = { counts: 0, refusals: 0, omittedRefusals: 0, limits: 0, used: 0, requests: 0 }
  const first: RefusedEntry[] = []
  const valid = <Entry, Value>(
    list: Part,
    entries: readonly Entry[],
    check: (entry: Entry) => Checked<Value>,
  ): Value[] =>
    entries.flatMap((entry, index) => {
      const checked = check(entry)
      if (checked.ok) return [checked.value]
      refused[list]++
      if (list === 'counts') refused.requests += requestsIn(entry)
      if (first.length < MAX_NAMED) first.push({ list, index, error: checked.error })
      return []
    })
  return {
    counts: valid('counts', counts, entry => parseCount(entry, known, nowMs)),
    refusals: valid('refusals', refusals, entry => parseRefusal(entry, known, nowMs)),
    omitted: valid('omittedRefusals', omittedRefusals, entry => parseOmitted(entry, known)),
    limits: valid('limits', limits, entry => parseLimit(entry, known, nowMs)),
    // After the counts, so that these are named first.
    used: new Map(valid('used', Object.entries(used), entry => parseUse(entry, nowMs))),
    refused: { ...refused, first },
  }
}

type Checked<Value> =
  | { readonly ok: true; readonly value: Value }
  | { readonly ok: false; readonly error: string }

/** A gateway has no route of another name. */
const ROUTE = Type.String({ pattern: SHORT_NAME.source })
const CODE = Type.String({ pattern: '^[a-z0-9_]{1,64}$' })
const TEXT = Type.String({ maxLength: 128 })
const countEntry = Compile(
  Type.Object({
    keyId: Type.Optional(TEXT),
    workspaceId: Type.Optional(TEXT),
    route: ROUTE,
    code: CODE,
    minute: Type.Integer({ minimum: 0, maximum: 1e9 }),
    count: Type.Integer({ minimum: 1, maximum: MAX_COUNT }),
  }),
)
const refusalEntry = Compile(
  Type.Object({
    at: Type.Integer({ minimum: 0, maximum: 1e14 }),
    keyId: TEXT,
    route: ROUTE,
    code: CODE,
    reason: CODE,
    requestId: Type.String({ pattern: '^[A-Za-z0-9._-]{1,128}$' }),
    address: Type.String({ pattern: '^[0-9A-Fa-f.:/]{0,50}$' }),
  }),
)
const limitEntry = Compile(
  Type.Object({
    keyId: Type.Optional(TEXT),
    workspaceId: Type.Optional(TEXT),
    plan: Type.Union([ROUTE, Type.Null()]),
    policy: ROUTE,
    windowSeconds: Type.Union([Type.Integer({ minimum: 1, maximum: 86_400 }), Type.Null()]),
    requests: Type.Integer({ minimum: 1, maximum: MAX_COUNT }),
    used: Type.Integer({ minimum: 0, maximum: MAX_COUNT }),
    endsAt: Type.Integer({ minimum: 0, maximum: 1e14 }),
  }),
)
const omittedEntry = Compile(Type.Object({ workspaceId: TEXT, count: Type.Integer({ minimum: 1 }) }))

function parseCount(entry: unknown, known: Known, nowMs: number): Checked<Count> {
  if (!countEntry.Check(entry)) return wrong(malformed(entry))
  const { keyId, workspaceId: folded, route, code, minute } = entry
  const owner = findOwner(keyId, folded, known)
  if (!owner.ok) return owner
  const time = checkTime(minute * MINUTE_MS, nowMs)
  if (time !== null) return wrong(time)
  // A gateway's clock that is a little ahead must not count in an hour that has not begun.
  const now = Math.floor(nowMs / MINUTE_MS)
  return {
    ok: true,
    value: { ...owner.value, route, code, minute: Math.min(minute, now), count: entry.count },
  }
}

/** Whose an entry is, which names its key or, for all keys together, the workspace. */
function findOwner(
  keyId: string | undefined,
  named: string | undefined,
  known: Known,
): Checked<{ readonly workspaceId: string; readonly keyId: string | null }> {
  if ((keyId === undefined) === (named === undefined)) return wrong('needs either keyId or workspaceId')
  const workspaceId = keyId === undefined ? knownWorkspace(named ?? '', known) : known.findWorkspace(keyId)
  if (workspaceId === null) return wrong(keyId === undefined ? 'unknown workspace' : 'unknown key')
  return { ok: true, value: { workspaceId, keyId: keyId ?? null } }
}

function parseRefusal(entry: unknown, known: Known, nowMs: number): Checked<Refusal> {
  if (!refusalEntry.Check(entry)) return wrong('not a refusal in the documented form')
  const { at, keyId, route, code, reason, requestId, address } = entry
  const time = checkTime(at, nowMs)
  if (time !== null) return wrong(time)
  const workspaceId = known.findWorkspace(keyId)
  if (workspaceId === null) return wrong('unknown key')
  const atMs = Math.min(at, nowMs)
  return { ok: true, value: { workspaceId, atMs, keyId, route, code, reason, requestId, address } }
}

function parseLimit(entry: unknown, known: Known, nowMs: number): Checked<LimitUse> {
  if (!limitEntry.Check(entry)) return wrong('not a limit in the documented form')
  const { keyId, workspaceId, plan, policy, windowSeconds, requests, used, endsAt } = entry
  const owner = findOwner(keyId, workspaceId, known)
  if (!owner.ok) return owner
  if (endsAt > nowMs + LATEST_END_MS) return wrong('ends too late')
  const window = { plan, policy, windowSeconds, requests, used: Math.min(used, requests), endsAt }
  return { ok: true, value: { ...owner.value, ...window } }
}

function parseOmitted(entry: unknown, known: Known): Checked<string> {
  if (!omittedEntry.Check(entry)) return wrong('needs workspaceId and a count from 1')
  const workspaceId = knownWorkspace(entry.workspaceId, known)
  return workspaceId === null ? wrong('unknown workspace') : { ok: true, value: workspaceId }
}

/** A gateway's clock that is ahead must not set a time in the future. */
function parseUse([id, ms]: readonly [string, unknown], nowMs: number): Checked<readonly [string, number]> {
  if (!isKeyId(id)) return wrong('not the id of a key')
  if (!isCount(ms)) return wrong('must be whole milliseconds since the epoch')
  return { ok: true, value: [id, Math.min(ms, nowMs)] }
}

function knownWorkspace(workspaceId: string, known: Known): string | null {
  return isWorkspaceId(workspaceId) && known.hasWorkspace(workspaceId) ? workspaceId : null
}

function checkTime(ms: number, nowMs: number): string | null {
  if (ms > nowMs + CLOCK_TOLERANCE_MS) return 'is in the future'
  return ms < nowMs - OLDEST_COUNT_MS ? 'is more than 13 days old' : null
}

/** @returns 0 if the entry does not say */
function requestsIn(entry: unknown): number {
  const given: unknown = typeof entry === 'object' && entry !== null && 'count' in entry ? entry.count : 0
  return typeof given === 'number' && Number.isInteger(given) && given >= 1 && given <= MAX_COUNT ? given : 0
}

/** Names the likeliest mistake; the values are not repeated. */
function malformed(entry: unknown): string {
  if (typeof entry !== 'object' || entry === null) return 'must be an object'
  return requestsIn(entry) > 0
    ? 'not a count in the documented form'
    : `count must be a whole number from 1 to ${MAX_COUNT}`
}

function wrong(error: string): { readonly ok: false; readonly error: string } {
  return { ok: false, error }
}

const MAX_KEYS = 100_000
const MAX_WORKSPACES = 20_000

/** Looks up the workspaces of reported keys. A key never changes its workspace, so each is read once. */
export function createFindKnown({ reader, dialect }: Pick<Database, 'reader' | 'dialect'>): FindKnown {
  const workspaceByKey = new LRUCache<string, string>(atMost(MAX_KEYS))
  const workspaces = new LRUCache<string, true>(atMost(MAX_WORKSPACES))

  async function findKeys(ids: readonly string[]): Promise<ReadonlyMap<string, string>> {
    const found = new Map<string, string>()
    const missing: string[] = []
    for (const id of ids) {
      const workspaceId = workspaceByKey.get(id)
      if (workspaceId === undefined) missing.push(id)
      else found.set(id, workspaceId)
    }
    if (missing.length === 0) return found
    const { rows } = await sql<{ id: string; workspace_id: string }>`
      select keys.id, keys.workspace_id from ${listAsRows(missing, dialect)} join keys on keys.id = listed.value`.execute(
      reader,
    )
    for (const { id, workspace_id } of rows) {
      workspaceByKey.set(id, workspace_id)
      found.set(id, workspace_id)
    }
    return found
  }

  async function findWorkspaces(ids: readonly string[]): Promise<ReadonlySet<string>> {
    const found = new Set(ids.filter(id => workspaces.get(id) === true))
    const missing = ids.filter(id => !found.has(id))
    if (missing.length === 0) return found
    const { rows } = await sql<{ value: string }>`
      select listed.value from ${listAsRows(missing, dialect)}
      where exists (select 1 from keys where keys.workspace_id = listed.value)`.execute(reader)
    for (const { value } of rows) {
      workspaces.set(value, true)
      found.add(value)
    }
    return found
  }

  return async ({ counts = [], refusals = [], omittedRefusals = [], limits = [] }) => {
    const keys = await findKeys(collectTexts([...counts, ...refusals, ...limits], 'keyId').filter(isKeyId))
    const named = await findWorkspaces(
      collectTexts([...counts, ...omittedRefusals, ...limits], 'workspaceId'),
    )
    return { findWorkspace: id => keys.get(id) ?? null, hasWorkspace: id => named.has(id) }
  }
}

/** Each text once; entries that are not valid are refused later. */
function collectTexts(entries: readonly unknown[], field: 'keyId' | 'workspaceId'): string[] {
  const texts = new Set<string>()
  for (const entry of entries) {
    if (typeof entry !== 'object' || entry === null) continue
    const value: unknown = Reflect.get(entry, field)
    if (typeof value === 'string' && value.length <= 128 && !value.includes('\0')) texts.add(value)
  }
  return [...texts]
}
