import { type Kysely, sql } from 'kysely'
import type { AuditRow, Tables } from '../tables.ts'
import { CHAIN_START, type ChainHead, hashOf } from './audit-chain.ts'

const ROWS_AT_ONCE = 1000
/** More are counted. */
const PROBLEMS_SHOWN = 20
/** A running console adds an entry to the chain within milliseconds, and those of one that died within seconds. */
const MAX_QUEUED_MS = 60_000

export interface VerifyOptions {
  /** A head that was kept elsewhere; it must be in the chain. */
  readonly keptHead: string | null
  /** Entries up to this time may be outside the chain; null: up to the first entry of the chain. */
  readonly unchainedBeforeMs: number | null
  readonly nowMs: number
}

export interface ChainReport {
  /** Null if its row is missing. */
  readonly head: ChainHead | null
  /** Entries of the chain that were read. */
  readonly verified: number
  readonly firstAtMs: number | null
  /** Entries from before the chain: nothing shows whether they were changed. */
  readonly beforeChain: number
  /** Committed entries that a console is about to add to the chain: nothing shows whether they were changed. */
  readonly queued: number
  /** Place of the kept head; null if there is none, or it was not found. */
  readonly keptHeadAt: number | null
  /** The first problems, in the order of the chain. */
  readonly problems: readonly string[]
  readonly problemCount: number
}

/** Of a missing table: a console of this version has not opened the database yet. */
export class NoAuditChain extends Error {}

/**
 * Reads the whole chain in batches. Entries that a running console appends meanwhile are left for the next run.
 * @param database only read
 */
export async function verifyAudit(database: Kysely<Tables>, options: VerifyOptions): Promise<ChainReport> {
  const head = await readHead(database)
  const walk = new ChainWalk(head, options.keptHead)
  for (;;) {
    const rows = await readRows(database, walk.position, head?.sequence ?? Number.MAX_SAFE_INTEGER)
    for (const row of rows) walk.take(row)
    if (rows.length < ROWS_AT_ONCE) break
  }
  walk.finish()
  await findBeyondHead(database, walk)
  const beforeChain = await countOutside(database, walk, options.unchainedBeforeMs)
  const queued = await countQueued(database, walk, options.nowMs)
  return { head, beforeChain, queued, ...walk.report() }
}

async function hasTable(database: Kysely<Tables>, table: keyof Tables): Promise<boolean> {
  return (await database.introspection.getTables()).some(({ name }) => name === table)
}

async function readHead(database: Kysely<Tables>): Promise<ChainHead | null> {
  if (!(await hasTable(database, 'audit_head'))) {
    throw new NoAuditChain(
      'The database (database.url) has no audit chain yet: start the console of this version once, which migrates it',
    )
  }
  const head = await database.selectFrom('audit_head').select(['sequence', 'hash']).executeTakeFirst()
  return head ?? null
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
  #last: ChainHead = CHAIN_START
  /** Hashes that the next entry may build on: after a change, what is stored or what is true. */
  #bases: readonly string[] | null = [CHAIN_START.hash]
  #verified = 0
  #firstAtMs: number | null = null
  #keptHeadAt: number | null = null
  readonly #problems: string[] = []
  #problemCount = 0
  position: Position = { sequence: Number.MIN_SAFE_INTEGER, id: '' }

  constructor(head: ChainHead | null, keptHead: string | null) {
    this.#head = head
    this.#keptHead = keptHead
    if (head === null) this.note('removed: the head of the chain is missing')
    if (keptHead === CHAIN_START.hash) this.#keptHeadAt = 0
  }

  get firstAtMs(): number | null {
    return this.#firstAtMs
  }

  take(row: AuditRow): void {
    const sequence = row.sequence ?? 0
    this.position = { sequence, id: row.id }
    this.#verified += 1
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
    const hashes = (this.#bases ?? []).map(base => hashOf(base, row))
    const isGood = this.#bases === null || hashes.includes(stored)
    if (!isGood) this.note(`changed: ${describe(row)} does not match its hash`)
    this.#bases = isGood ? [stored] : [stored, ...hashes]
    this.#last = { sequence, hash: stored }
    if (stored === this.#keptHead && isGood) this.#keptHeadAt = sequence
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

  report() {
    return {
      verified: this.#verified,
      firstAtMs: this.#firstAtMs,
      keptHeadAt: this.#keptHeadAt,
      problems: this.#problems,
      problemCount: this.#problemCount,
    }
  }
}

/** Entries are read before the head: those of a running console are never beyond it. */
async function findBeyondHead(database: Kysely<Tables>, walk: ChainWalk): Promise<void> {
  const newest = await database
    .selectFrom('audit')
    .selectAll()
    .where('sequence', 'is not', null)
    .orderBy('sequence', 'desc')
    .limit(1)
    .executeTakeFirst()
  const head = await readHead(database)
  if (head !== null && newest !== undefined && (newest.sequence ?? 0) > head.sequence) {
    walk.note(`inserted: ${describe(newest)} is beyond the head of the chain, ${head.sequence}`)
  }
}

/** @returns how many are from before the chain; later ones are problems */
async function countOutside(
  database: Kysely<Tables>,
  walk: ChainWalk,
  unchainedBeforeMs: number | null,
): Promise<number> {
  const beginsAtMs = unchainedBeforeMs ?? walk.firstAtMs ?? Number.MAX_SAFE_INTEGER
  const outside = database.selectFrom('audit').where('sequence', 'is', null)
  const before = await outside
    .where('at_ms', '<', beginsAtMs)
    .select(({ fn }) => fn.countAll<number>().as('count'))
    .executeTakeFirstOrThrow()
  let afterId = ''
  for (;;) {
    const rows = await outside
      .where('at_ms', '>=', beginsAtMs)
      .where('id', '>', afterId)
      .selectAll()
      .orderBy('id')
      .limit(ROWS_AT_ONCE)
      .execute()
    for (const row of rows) {
      walk.note(`inserted: ${describe(row)} is not in the chain, or a console of the release before wrote it`)
    }
    if (rows.length < ROWS_AT_ONCE) return before.count
    afterId = rows.at(-1)?.id ?? ''
  }
}

/** @returns how many; those that have waited for too long are problems */
async function countQueued(database: Kysely<Tables>, walk: ChainWalk, nowMs: number): Promise<number> {
  if (!(await hasTable(database, 'audit_queue'))) return 0
  const rows = database.selectFrom('audit_queue')
  const late = await rows
    .selectAll()
    .where('at_ms', '<', nowMs - MAX_QUEUED_MS)
    .orderBy('id')
    .execute()
  for (const row of late) {
    const entry = describe({ ...row, sequence: null })
    walk.note(`waiting: ${entry} should be in the chain by now: no console is running, or it was inserted`)
  }
  const all = await rows.select(({ fn }) => fn.countAll<number>().as('count')).executeTakeFirstOrThrow()
  return all.count
}

function gap(first: number, last: number): string {
  return first === last ? `entry ${first} is` : `entries ${first} to ${last} are`
}

function describe({ sequence, id, at_ms, action }: Omit<AuditRow, 'hash'>): string {
  const place = sequence === null ? '' : `${sequence}, `
  return `entry ${place}${id}, ${action} at ${new Date(at_ms).toISOString()},`
}
