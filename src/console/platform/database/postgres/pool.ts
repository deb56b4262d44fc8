import type { PostgresPool, PostgresPoolClient } from 'kysely'
import type pg from 'pg'
import { StartError } from '../../../../domain/errors.ts'
import { DatabaseUnavailable, mayRunAgain, type ReportTrouble } from '../database-unavailable.ts'
import { explainConnectError, explainQueryError, isBroken, isServerLost } from './errors.ts'

/**
 * How often the server was lost or turned out to be read-only. The pools of a process share it: after a failover none of them uses a session
 * again that is older.
 */
export interface Failovers {
  count: number
}

interface PoolParts {
  readonly rules: SessionRules
  readonly failovers: Failovers
  readonly report: ReportTrouble
}

/** A session, taken out of the pool. */
interface Session {
  readonly client: pg.PoolClient
  readonly isDirect: boolean
  /** The count of failovers before it. */
  readonly openedAfter: number
}

const BEGIN = /^(?:begin|start transaction)\b/
const READ = /^(?:\/\*.*?\*\/)?\s*select\b/i

/**
 * A pool whose errors are typed and counted. A session that broke is thrown away, and with a lost server all of its age. A read, or the
 * beginning of a transaction, that fails so is run again on a new session: nothing was changed.
 */
export function guardPool(pool: pg.Pool, parts: PoolParts): PostgresPool {
  const sessions = new WeakMap<pg.PoolClient, Session>()
  return {
    options: pool.options,
    end: () => pool.end(),
    async connect() {
      const take = () => takeSession(pool, sessions, parts)
      return new GuardedSession(await take(), take, parts).client
    },
  }
}

/** Ends, since each session that is too old leaves the pool. */
async function takeSession(
  pool: pg.Pool,
  sessions: WeakMap<pg.PoolClient, Session>,
  { rules, failovers, report }: PoolParts,
): Promise<Session> {
  for (;;) {
    const openedAfter = failovers.count
    const client = await pool.connect().catch((error: unknown) => {
      throw counted(explainConnectError(error), report)
    })
    const known = sessions.get(client)
    if (known === undefined) {
      const isDirect = await prepareSession(client, rules).catch((error: unknown) => {
        client.release(true)
        throw counted(explainConnectError(error), report)
      })
      const session = { client, isDirect, openedAfter }
      sessions.set(client, session)
      return session
    }
    if (known.openedAfter === failovers.count) return known
    client.release(true)
  }
}

/** One session at a time for Kysely, which another may replace between transactions. */
class GuardedSession {
  readonly client: PostgresPoolClient
  readonly #take: () => Promise<Session>
  readonly #parts: PoolParts
  /** Null once another could not be opened. */
  #session: Session | null
  #broken: unknown = null
  #isInTransaction = false

  constructor(session: Session, take: () => Promise<Session>, parts: PoolParts) {
    this.#session = session
    this.#take = take
    this.#parts = parts
    const query = (sql: string, parameters: readonly unknown[]) => this.#query(sql, parameters)
    this.client = {
      // The other form takes a cursor, which Kysely has only if its configuration has one.
      query: query as unknown as PostgresPoolClient['query'],
      release: isUnusable => this.#release(isUnusable === true),
    }
  }

  async #query(sql: string, parameters: readonly unknown[]): Promise<unknown> {
    if (BEGIN.test(sql)) return this.#orOnNewSession(() => this.#begin(sql))
    if (this.#isInTransaction) {
      if (sql === 'commit' || sql === 'rollback') this.#isInTransaction = false
      return this.#send(sql, parameters)
    }
    // A read has nothing to commit: with the answer to a commit it would be unknown whether it may run again.
    if (READ.test(sql)) return this.#orOnNewSession(() => this.#runAlone(sql, parameters, 'rollback'))
    return this.#runAlone(sql, parameters, 'commit')
  }

  /** Only for what changes nothing. */
  async #orOnNewSession<Result>(run: () => Promise<Result>): Promise<Result> {
    try {
      return await run()
    } catch (error) {
      if (!mayRunAgain(error)) throw error
      this.#release(true)
      this.#session = await this.#take()
      this.#broken = null
      return run()
    }
  }

  /** A statement without a transaction. @param end of the one that a pooler needs for it */
  async #runAlone(sql: string, parameters: readonly unknown[], end: 'commit' | 'rollback'): Promise<unknown> {
    if (this.#session?.isDirect === true) return this.#send(sql, parameters)
    await this.#orOnNewSession(() => this.#begin('begin'))
    this.#isInTransaction = false
    try {
      const result = await this.#send(sql, parameters)
      await this.#send(end, [])
      return result
    } catch (error) {
      // The first error counts; a session that cannot roll back is thrown away.
      await this.#send('rollback', []).catch((failure: unknown) => {
        this.#broken ??= failure
      })
      throw error
    }
  }

  async #begin(sql: string): Promise<unknown> {
    const { rules, report } = this.#parts
    const result = await this.#send(transactionStart(sql, this.#session?.isDirect === true, rules), [])
    // One for each statement.
    const last = Array.isArray(result) ? result.at(-1) : result
    try {
      requireUse(last?.rows?.[0], rules)
    } catch (error) {
      this.#noteBroken(counted(error, report))
      throw error
    }
    this.#isInTransaction = true
    return last
  }

  async #send(sql: string, parameters: readonly unknown[]): Promise<pg.QueryResult> {
    if (this.#broken !== null || this.#session === null) throw this.#broken
    try {
      return await this.#session.client.query(sql, [...parameters])
    } catch (error) {
      const explained = counted(explainQueryError(error, sql), this.#parts.report)
      if (isBroken(explained)) this.#noteBroken(explained)
      throw explained
    }
  }

  #noteBroken(error: unknown): void {
    const { failovers } = this.#parts
    this.#broken = error
    this.#isInTransaction = false
    if (isServerLost(error) && this.#session?.openedAfter === failovers.count) failovers.count++
  }

  #release(isUnusable: boolean): void {
    this.#session?.client.release(isUnusable || this.#broken !== null)
    this.#session = null
  }
}

function counted(error: unknown, report: ReportTrouble): unknown {
  if (error instanceof DatabaseUnavailable) report(error.kind)
  return error
}

export interface SessionRules {
  /** Settings of the server: time limits, and what helps our statements. No value may hold a quote. */
  readonly settings: Readonly<Record<string, string | number>>
  /** `write`: at a primary, where transactions may write; `read`: at a primary; `any`: also at a standby, and never writing. */
  readonly use: 'write' | 'read' | 'any'
  /** Refuses a pooler, with this text. */
  readonly refusesPooler?: string
}

interface ServerState {
  readonly is_standby: boolean
  readonly is_read_only: boolean
}

const NOT_WRITABLE = '25006'
/** A new session has no time limit yet. */
const PREPARE_TIMEOUT_MS = 6000
const STATE = `pg_is_in_recovery() as is_standby, current_setting('transaction_read_only') = 'on' as is_read_only`
/** A change that was answered must outlive a crash, also where the default of the database gives that up for speed. */
const DURABLE = `set_config('synchronous_commit',
  case current_setting('synchronous_commit') when 'off' then 'on' else current_setting('synchronous_commit') end, true)`

/**
 * Applies the rules to a new session. Poolers refuse startup parameters, so there are none. What a pooler shares by transaction has no session
 * of its own: a setting would be lost, and would reach others. Behind any pooler each transaction sets them for itself.
 * @returns whether no pooler is in between
 */
async function prepareSession(client: pg.PoolClient, rules: SessionRules): Promise<boolean> {
  const { settings, use, refusesPooler } = rules
  const all = use === 'any' ? { ...settings, default_transaction_read_only: 'on' } : settings
  // Local to this statement, and so without effect, behind a pooler.
  const set = Object.entries(all).map(
    ([name, value]) => `set_config('${name}', '${value}', pg_backend_pid() <> ${serverPid(client)})`,
  )
  const query = {
    text: `select ${[`pg_backend_pid() as pid`, STATE, ...set].join(', ')}`,
    query_timeout: PREPARE_TIMEOUT_MS,
  }
  const { rows } = await client.query<ServerState & { pid: number }>(query)
  const [state] = rows
  if (state?.is_standby === true && use !== 'any') throw standby()
  const isDirect = state?.pid === serverPid(client)
  if (!isDirect && refusesPooler !== undefined) throw new StartError(refusesPooler)
  return isDirect
}

/** That of the server process, which poolers replace by one of their own. The driver does not document it: without it, each server counts as a pooler. */
function serverPid(client: pg.PoolClient): number {
  return 'processID' in client && typeof client.processID === 'number' ? client.processID : 0
}

/** @returns the statement that begins a transaction under these rules */
function transactionStart(begin: string, isDirect: boolean, { settings, use }: SessionRules): string {
  const statements = [begin]
  if (!isDirect) {
    statements.push(...Object.entries(settings).map(([name, value]) => `set local ${name} = '${value}'`))
    if (use === 'any' && !begin.includes('read write'))
      statements.push('set local transaction_read_only = on')
  }
  // A pooler may have another server for each transaction.
  if (use === 'write') statements.push(`select ${STATE}, ${DURABLE}`)
  else if (!isDirect) statements.push(`select ${STATE}`)
  return statements.join('; ')
}

/**
 * After a failover, a session or a pooler may lead to a server that does not write, or is behind the primary.
 * @param row the last one of what began the transaction
 * @throws DatabaseUnavailable if the rules do not admit the server
 */
function requireUse(row: unknown, { use }: SessionRules): void {
  if (use === 'any' || typeof row !== 'object' || row === null) return
  if (Reflect.get(row, 'is_standby') === true) throw standby()
  if (use === 'write' && Reflect.get(row, 'is_read_only') === true) {
    throw new DatabaseUnavailable('read_only', 'this server or session accepts no writes', {
      sqlState: NOT_WRITABLE,
    })
  }
}

function standby(): DatabaseUnavailable {
  const reason = 'this server is a standby, which may be behind its primary'
  return new DatabaseUnavailable('read_only', reason, { sqlState: NOT_WRITABLE })
}
