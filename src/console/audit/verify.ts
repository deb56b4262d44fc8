import { type Kysely, sql } from 'kysely'
import { CHAIN_START, type ChainHead, hashEntry, readHead } from '../platform/audit/chain.ts'
import { type AuditKeys, checkChained, checkQueued, type MacVerdict } from '../platform/audit/mac.ts'
import { inBatches } from '../platform/database/query-parts.ts'
import type { AuditFields, AuditRow, Tables } from '../platform/database/tables.ts'

const ROWS_AT_ONCE = 1000
/** More are counted. */
const PROBLEMS_SHOWN = 20
/** Groups of entries that cannot be verified; others are counted together: a forged entry can name any secret. */
const MAX_GROUPS = 20
/** A running console adds an entry to the chain within milliseconds, and those of one that died within seconds. */
const MAX_QUEUED_MS = 60_000

export interface VerifyOptions {
  /** A head that was kept elsewhere; it must be in the chain. */
  readonly keptHead: string | null
  /** Of the signing secrets that are given. Entries that another one signed cannot be verified. */
  readonly keys: AuditKeys
  readonly nowMs: number
}

export interface ChainReport {
  /** Null if its row is missing. */
  readonly head: ChainHead | null
  /** Entries of the chain that were read. */
  readonly read: number
  readonly firstAtMs: number | null
  /** Committed entries that a console wrote and is about to add to the chain. */
  readonly queued: number
  /** Entries of which nothing can be said, in the chain and in the queue. */
  readonly unverified: readonly UnverifiedGroup[]
  /** Place of the kept head; null if there is none, or it was not found. */
  readonly keptHeadAt: number | null
  /** The first problems, in the order of the chain. */
  readonly problems: readonly string[]
  readonly problemCount: number
  /** Problems that are only entries which wait for a console: one that was killed has left them. */
  readonly lateCount: number
}

/** Entries that one signing secret signed, which is not given. */
export interface UnverifiedGroup {
  /** Its fingerprint; null: the entries are not signed, or too many different secrets are named. */
  readonly signedBy: string | null
  readonly count: number
  /** The first of them, in words. */
  readonly first: string
}

/** Of a missing table: a console of this version has not opened the database yet. */
export class NoAuditChain extends Error {}

/**
 * Reads the whole chain and the queue in batches. Entries that a running console appends meanwhile are left for the next run.
 * @param database only read
 */
export async function verifyAudit(database: Kysely<Tables>, options: VerifyOptions): Promise<ChainReport> {
  await requireChain(database)
  const head = await readHead(database)
  const walk = new ChainWalk(head, options)
  const readAfter = () => readRows(database, walk.position, lastPlace(head))
  for await (const rows of inBatches(ROWS_AT_ONCE, readAfter)) {
    for (const row of rows) walk.take(row)
  }
  walk.finish()
  await findBeyondHead(database, walk)
  await findOutside(database, walk)
  const queued = await checkQueue(database, walk, options)
  return { head, queued, ...walk.report() }
}

async function requireChain(database: Kysely<Tables>): Promise<void> {
  const tables = await database.introspection.getTables()
  if (tables.some(({ name }) => name === 'audit')) return
  throw new NoAuditChain(
    'The database (database.url) has no audit chain yet: start the console of this version once, which migrates it',
  )
}

/** A forged head can name any place. No console gives one that is not a safe integer: those are found outside of the chain. */
function lastPlace(head: ChainHead | null): number {
  return Math.min(head?.sequence ?? Number.MAX_SAFE_INTEGER, Number.MAX_SAFE_INTEGER)
}

interface Position {
  readonly sequence: number
  readonly id: string
}

/** By sequence and id: without its index the table could hold a sequence twice. */
function readRows(database: Kysely<Tables>, { sequence, id }: Position, last: number): Promise<AuditRow[]> {
  return (
    database
      .selectFrom('audit')
      .selectAll()
      // One comparison of both: SQLite would answer an `or` by sorting all that is left, for each batch.
      .where(sql<boolean>`(sequence, id) > (${sequence}, ${id})`)
      .where('sequence', '<=', last)
      .orderBy('sequence')
      .orderBy('id')
      .limit(ROWS_AT_ONCE)
      .execute()
  )
}

/** Takes the rows of a chain one by one. */
class ChainWalk {
  readonly #head: ChainHead | null
  readonly #keptHead: string | null
  readonly #keys: AuditKeys
  #last: ChainHead = CHAIN_START
  /** Hashes that the next entry may build on: after a change, what is stored or what is true. */
  #bases: readonly string[] | null = [CHAIN_START.hash]
  #read = 0
  #firstAtMs: number | null = null
  #keptHeadAt: number | null = null
  readonly #unverified = new UnverifiedEntries()
  readonly #problems: string[] = []
  #problemCount = 0
  #lateCount = 0
  position: Position = { sequence: Number.MIN_SAFE_INTEGER, id: '' }

  constructor(head: ChainHead | null, { keptHead, keys }: VerifyOptions) {
    this.#head = head
    this.#keptHead = keptHead
    this.#keys = keys
    if (head === null) this.note('removed: the head of the chain is missing')
    if (keptHead === CHAIN_START.hash) this.#keptHeadAt = 0
  }

  take(row: AuditRow): void {
    const sequence = row.sequence ?? 0
    this.position = { sequence, id: row.id }
    this.#read += 1
    this.#firstAtMs ??= row.at_ms
    const expected = this.#last.sequence + 1
    if (!Number.isSafeInteger(sequence) || sequence < expected) {
      this.note(`inserted: ${describe(row)} has a place that is taken`)
      return
    }
    if (sequence > expected) {
      this.note(`removed: ${gap(expected, sequence - 1)} missing before ${describe(row)}`)
      // What it builds on is gone with the entries before.
      this.#bases = null
    }
    this.#check(row, sequence)
  }

  #check(row: AuditRow, sequence: number): void {
    const stored = row.hash ?? ''
    const hashes = (this.#bases ?? []).map(base => hashEntry(base, row))
    const isLinked = this.#bases === null || hashes.includes(stored)
    const verdict = checkChained(this.#keys, row)
    if (!isLinked) this.note(`changed: ${describe(row)} does not match its hash`)
    else this.noteVerdict(row, verdict)
    this.#bases = isLinked ? [stored] : [stored, ...hashes]
    this.#last = { sequence, hash: stored }
    if (stored === this.#keptHead && isLinked && verdict !== 'invalid') this.#keptHeadAt = sequence
  }

  noteVerdict(row: DescribedRow & Pick<AuditRow, 'signed_by'>, verdict: MacVerdict): void {
    if (verdict === 'invalid')
      this.note(`forged: ${describe(row)} was not written by a console: its MAC is wrong`)
    if (verdict === 'unknown') this.#unverified.add(row.signed_by, describe(row))
  }

  finish(): void {
    const { sequence, hash } = this.#last
    const end = this.#head ?? this.#last
    if (sequence < end.sequence) {
      this.note(`removed: ${gap(sequence + 1, end.sequence)} missing at the end of the chain`)
    } else if (hash !== end.hash) {
      this.note(`changed: the head of the chain is not the hash of its last entry, ${sequence}`)
    }
    if (this.#keptHead !== null && this.#keptHeadAt === null) {
      this.note('the given head is not in the chain: entries up to it were changed or removed')
    }
  }

  note(problem: string): void {
    this.#problemCount += 1
    if (this.#problems.length < PROBLEMS_SHOWN) this.#problems.push(problem)
  }

  noteLate(row: DescribedRow): void {
    this.#lateCount += 1
    this.note(lateText(row))
  }

  report() {
    return {
      read: this.#read,
      firstAtMs: this.#firstAtMs,
      unverified: this.#unverified.groups,
      keptHeadAt: this.#keptHeadAt,
      problems: this.#problems,
      problemCount: this.#problemCount,
      lateCount: this.#lateCount,
    }
  }
}

/** Entries of which nothing can be said, by the secret that would say it. */
class UnverifiedEntries {
  readonly #groups = new Map<string | null, UnverifiedGroup>()

  add(signedBy: string | null, description: string): void {
    const name = this.#groups.has(signedBy) || this.#groups.size < MAX_GROUPS ? signedBy : null
    const { count, first } = this.#groups.get(name) ?? { count: 0, first: description }
    this.#groups.set(name, { signedBy: name, count: count + 1, first })
  }

  get groups(): readonly UnverifiedGroup[] {
    return [...this.#groups.values()]
  }
}

/** Entries are read before the head: those of a running console are never beyond it. */
async function findBeyondHead(database: Kysely<Tables>, walk: ChainWalk): Promise<void> {
  const newest = await database
    .selectFrom('audit')
    .selectAll()
    .where('sequence', '<=', Number.MAX_SAFE_INTEGER)
    .orderBy('sequence', 'desc')
    .limit(1)
    .executeTakeFirst()
  const head = await readHead(database)
  if (head !== null && newest !== undefined && (newest.sequence ?? 0) > head.sequence) {
    walk.note(`inserted: ${describe(newest)} is beyond the head of the chain, ${head.sequence}`)
  }
}

/** A console gives each entry a place in the chain: those without one, or with one that no console gives, are not its own. */
async function findOutside(database: Kysely<Tables>, walk: ChainWalk): Promise<void> {
  const readAfter = (last: { readonly id: string } | null) =>
    database
      .selectFrom('audit')
      .where(({ or, eb }) =>
        or([
          eb('sequence', 'is', null),
          eb('sequence', '<', Number.MIN_SAFE_INTEGER),
          eb('sequence', '>', Number.MAX_SAFE_INTEGER),
        ]),
      )
      .where('id', '>', last?.id ?? '')
      .selectAll()
      .orderBy('id')
      .limit(ROWS_AT_ONCE)
      .execute()
  for await (const rows of inBatches(ROWS_AT_ONCE, readAfter)) {
    for (const row of rows) walk.note(`inserted: ${describe(row)} is not in the chain`)
  }
}

/** @returns how many a console is about to add to the chain; all others are problems, or cannot be verified */
async function checkQueue(
  database: Kysely<Tables>,
  walk: ChainWalk,
  { keys, nowMs }: VerifyOptions,
): Promise<number> {
  let queued = 0
  const readAfter = (last: { readonly id: string } | null) => readQueue(database, last?.id ?? '')
  for await (const rows of inBatches(ROWS_AT_ONCE, readAfter)) {
    for (const { is_chained, ...row } of rows) {
      const verdict = checkQueued(keys, row)
      const waiting = { ...row, sequence: null }
      if (verdict !== 'valid') walk.noteVerdict(waiting, verdict)
      else if (is_chained) walk.note(`inserted: ${describe(waiting)} is in the log and in the queue`)
      else {
        queued += 1
        if (row.at_ms < nowMs - MAX_QUEUED_MS) walk.noteLate(waiting)
      }
    }
  }
  return queued
}

/** In one statement with what is chained: a console moves entries from one table to the other. */
function readQueue(database: Kysely<Tables>, afterId: string) {
  return database
    .selectFrom('audit_queue')
    .selectAll()
    .select(
      sql<number | boolean>`exists (select 1 from audit where audit.id = audit_queue.id)`.as('is_chained'),
    )
    .where('id', '>', afterId)
    .orderBy('id')
    .limit(ROWS_AT_ONCE)
    .execute()
}

type DescribedRow = Pick<AuditFields, 'id' | 'at_ms' | 'action'> & Pick<AuditRow, 'sequence'>

function lateText(row: DescribedRow): string {
  return `waiting: ${describe(row)} should be in the chain by now: no console is running, or it does not add it`
}

function gap(first: number, last: number): string {
  return first === last ? `entry ${first} is` : `entries ${first} to ${last} are`
}

function describe({ sequence, id, at_ms, action }: DescribedRow): string {
  const place = sequence === null ? '' : `${sequence}, `
  const time = new Date(at_ms)
  // A forged entry can hold anything.
  const at = Number.isNaN(time.getTime()) ? at_ms : time.toISOString()
  return `entry ${place}${id}, ${action} at ${at},`
}
