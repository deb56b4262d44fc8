import { Type } from 'typebox'
import { Compile } from 'typebox/compile'
import { isWorkspaceId } from '../../domain/key/key-record.ts'
import { ROUTE_NAME } from '../../domain/route/route.ts'
import type {
  CheckedReport,
  Count,
  Refusal,
  RefusedEntries,
  RefusedEntry,
  UsageReportBody,
} from './usage-report.ts'

const MINUTE_MS = 60_000
/** A gateway's clock may be ahead by this much. */
export const CLOCK_TOLERANCE_MS = 10 * MINUTE_MS
/** Less than hours are kept: every accepted count still has its place. */
export const OLDEST_COUNT_MS = 13 * 86_400_000
const MAX_COUNT = 1_000_000_000
/** Refused entries that the answer names; of the others it says how many there are. */
const MAX_NAMED = 20

/** What is known about the keys and workspaces of a report. */
export interface KnownKeys {
  /** Null for an unknown key. */
  readonly workspaceOf: (keyId: string) => string | null
  readonly hasWorkspace: (workspaceId: string) => boolean
}

/** A gateway has no route of another name. */
const ROUTE = Type.String({ pattern: ROUTE_NAME.source })
const CODE = Type.String({ pattern: '^[a-z0-9_]{1,64}$' })
const TEXT = Type.String({ maxLength: 128 })
const COUNT = Type.Object({
  keyId: Type.Optional(TEXT),
  workspaceId: Type.Optional(TEXT),
  route: ROUTE,
  code: CODE,
  minute: Type.Integer({ minimum: 0, maximum: 1e9 }),
  count: Type.Integer({ minimum: 1, maximum: MAX_COUNT }),
})
const REFUSAL = Type.Object({
  at: Type.Integer({ minimum: 0, maximum: 1e14 }),
  keyId: TEXT,
  route: ROUTE,
  code: CODE,
  reason: CODE,
  requestId: Type.String({ pattern: '^[A-Za-z0-9._-]{1,128}$' }),
  address: Type.String({ pattern: '^[0-9A-Fa-f.:/]{0,50}$' }),
})
const OMITTED = Type.Object({ workspaceId: TEXT, count: Type.Integer({ minimum: 1 }) })

const [count, refusal, omitted] = [Compile(COUNT), Compile(REFUSAL), Compile(OMITTED)]

type Checked<Value> =
  | { readonly ok: true; readonly value: Value }
  | { readonly ok: false; readonly error: string }

/** Separates the valid entries of a report from the others. */
export function checkReport(
  { counts = [], refusals = [], omittedRefusals = [] }: UsageReportBody,
  known: KnownKeys,
  nowMs: number,
): Pick<CheckedReport, 'counts' | 'refusals' | 'omitted'> & { readonly refused: RefusedEntries } {
  const refused = { counts: 0, refusals: 0, omittedRefusals: 0, requests: 0 }
  const first: RefusedEntry[] = []
  const valid = <Value>(
    list: RefusedEntry['list'],
    entries: readonly unknown[],
    check: (entry: unknown) => Checked<Value>,
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
    refused: { ...refused, first },
  }
}

function parseCount(entry: unknown, known: KnownKeys, nowMs: number): Checked<Count> {
  if (!count.Check(entry)) return wrong(malformed(entry))
  const { keyId, workspaceId: folded, route, code, minute } = entry
  if ((keyId === undefined) === (folded === undefined)) {
    return wrong('needs either keyId or workspaceId')
  }
  const time = checkTime(minute * MINUTE_MS, nowMs)
  if (time !== null) return wrong(time)
  const workspaceId = keyId === undefined ? knownWorkspace(folded ?? '', known) : known.workspaceOf(keyId)
  if (workspaceId === null) return wrong(keyId === undefined ? 'unknown workspace' : 'unknown key')
  // A gateway's clock that is a little ahead must not count in an hour that has not begun.
  const now = Math.floor(nowMs / MINUTE_MS)
  const keyed = { workspaceId, keyId: keyId ?? null, route, code }
  return { ok: true, value: { ...keyed, minute: Math.min(minute, now), count: entry.count } }
}

function parseRefusal(entry: unknown, known: KnownKeys, nowMs: number): Checked<Refusal> {
  if (!refusal.Check(entry)) return wrong('not a refusal in the documented form')
  const { at, keyId, route, code, reason, requestId, address } = entry
  const time = checkTime(at, nowMs)
  if (time !== null) return wrong(time)
  const workspaceId = known.workspaceOf(keyId)
  if (workspaceId === null) return wrong('unknown key')
  const atMs = Math.min(at, nowMs)
  return { ok: true, value: { workspaceId, atMs, keyId, route, code, reason, requestId, address } }
}

function parseOmitted(entry: unknown, known: KnownKeys): Checked<string> {
  if (!omitted.Check(entry)) return wrong('needs workspaceId and a count from 1')
  const workspaceId = knownWorkspace(entry.workspaceId, known)
  return workspaceId === null ? wrong('unknown workspace') : { ok: true, value: workspaceId }
}

function knownWorkspace(workspaceId: string, known: KnownKeys): string | null {
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
