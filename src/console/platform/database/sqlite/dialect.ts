import type { DatabaseSync, SQLInputValue, SQLOutputValue, StatementSync } from 'node:sqlite'
import { setImmediate as atNextTurn } from 'node:timers'
import { setImmediate as nextTurn, setTimeout } from 'node:timers/promises'
import {
  CompiledQuery,
  type DatabaseConnection,
  type DialectAdapter,
  type Driver,
  SqliteAdapter,
  type SqliteDatabase,
  SqliteDialect,
  type SqliteDialectConfig,
  SqliteDriver,
  type SqliteStatement,
} from 'kysely'
import {
  type DatabaseTrouble,
  DatabaseUnavailable,
  isCommit,
  type ReportTrouble,
} from '../database-unavailable.ts'

/** Another process may hold the write lock for a moment: a console that is being replaced, or a backup. */
const BUSY_TIMEOUT_MS = 2000
const BUSY_RETRY_MS = 20

/** Kysely's SQLite dialect over `node:sqlite`, which differs from the expected driver in a few calls. */
export class NodeSqliteDialect extends SqliteDialect {
  readonly #raw: DatabaseSync
  readonly #config: SqliteDialectConfig

  constructor(database: DatabaseSync, report: ReportTrouble = () => {}) {
    const onCreateConnection = async (connection: DatabaseConnection) => inTurns(connection, report)
    const config = { database: bridge(database), onCreateConnection }
    super(config)
    this.#raw = database
    this.#config = config
  }

  override createDriver(): Driver {
    return new ImmediateDriver(this.#config, this.#raw)
  }

  override createAdapter(): DialectAdapter {
    return new TransactionalDdlAdapter()
  }
}

/** Every transaction writes, so it takes the write lock at once: a later upgrade of the lock would fail without waiting. */
class ImmediateDriver extends SqliteDriver {
  readonly #raw: DatabaseSync

  constructor(config: SqliteDialectConfig, raw: DatabaseSync) {
    super(config)
    this.#raw = raw
  }

  /** In a turn of its own, as `inTurns` says. */
  override async beginTransaction(connection: DatabaseConnection): Promise<void> {
    await nextTurn()
    await connection.executeQuery(CompiledQuery.raw('begin immediate'))
  }

  /** After some errors, such as a full disk, SQLite has rolled back by itself. */
  override async rollbackTransaction(connection: DatabaseConnection): Promise<void> {
    if (this.#raw.isTransaction) await super.rollbackTransaction(connection)
  }
}

/**
 * `node:sqlite` is synchronous, and code that only awaits statements never turns the event loop. So a statement waits for
 * the next turn once those before it have taken this one's share: sockets and heartbeats go on during long reads and writes.
 * For the same reason the wait for a lock is not left to SQLite. Kysely patches a connection in the same way for its log.
 */
function inTurns(connection: DatabaseConnection, report: ReportTrouble): void {
  const execute = connection.executeQuery.bind(connection)
  /** Since when another process holds the lock: those that wait behind each other wait once. */
  let busySinceMs: number | null = null
  const mayWait = () => {
    busySinceMs ??= performance.now()
    return performance.now() - busySinceMs < BUSY_TIMEOUT_MS
  }
  connection.executeQuery = async <Row>(...[query, options]: Parameters<typeof execute>) => {
    for (;;) {
      try {
        await nextStatement()
        const result = await execute<Row>(query, options)
        busySinceMs = null
        return result
      } catch (error) {
        const explained = explainSqliteError(error, query.sql)
        if (!(explained instanceof DatabaseUnavailable)) throw error
        if (explained.kind !== 'busy' || !mayWait()) {
          report(explained.kind)
          throw explained
        }
        await setTimeout(BUSY_RETRY_MS)
      }
    }
  }
}

/** How long statements, and what is done between them, may hold the event loop. */
const TURN_MS = 5
/** Of the thread, which has one event loop for all its databases; null until a statement runs in this turn. */
let turnStartedAtMs: number | null = null

async function nextStatement(): Promise<void> {
  // Once: one that has waited runs, or a long read on one connection would keep out those of the others for ever.
  if (turnStartedAtMs !== null && performance.now() - turnStartedAtMs > TURN_MS) await nextTurn()
  if (turnStartedAtMs !== null) return
  turnStartedAtMs = performance.now()
  atNextTurn(() => {
    turnStartedAtMs = null
  })
}

/** SQLite can roll back schema changes, so a migration is all or nothing, also with two consoles starting. */
class TransactionalDdlAdapter extends SqliteAdapter {
  override get supportsTransactionalDdl(): boolean {
    return true
  }
}

function bridge(database: DatabaseSync): SqliteDatabase {
  return {
    close: () => database.close(),
    prepare: sql => bridgeStatement(database.prepare(sql), sql),
  }
}

/** Statements that only read: they can be run again. */
const READS = /^\s*select\b/i

function bridgeStatement(statement: StatementSync, text: string): SqliteStatement {
  const all = (parameters: readonly unknown[]) => statement.all(...asInputs(parameters))
  const readsOnly = READS.test(text)
  if (!readsOnly) statement.setReadBigInts(true)
  return {
    reader: statement.columns().length > 0,
    all: parameters => {
      if (!readsOnly) return all(parameters).map(withNumbers)
      try {
        return all(parameters)
      } catch (error) {
        if (!(error instanceof RangeError)) throw error
        statement.setReadBigInts(true)
        return all(parameters).map(withNumbers)
      }
    },
    run: parameters => statement.run(...asInputs(parameters)),
    iterate: parameters => statement.iterate(...asInputs(parameters)),
  }
}

/**
 * `node:sqlite` throws for an integer of more than 53 bits, which Postern never writes: one forged row would fail each query
 * that finds it. As from PostgreSQL, it is the nearest number instead.
 */
function withNumbers(row: Readonly<Record<string, SQLOutputValue>>): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(row).map(([column, value]) => [column, typeof value === 'bigint' ? Number(value) : value]),
  )
}

/** Our typed queries pass text, numbers and null. `node:sqlite` throws on anything else. */
function asInputs(parameters: readonly unknown[]): SQLInputValue[] {
  return parameters as SQLInputValue[]
}

/** By primary result code (https://www.sqlite.org/rescode.html). What is not here is a mistake of ours. */
const TROUBLES: ReadonlyMap<number, DatabaseTrouble> = new Map([
  /* PERM */ [3, 'refused'],
  /* BUSY */ [5, 'busy'],
  /* LOCKED */ [6, 'busy'],
  /* NOMEM */ [7, 'full'],
  /* READONLY */ [8, 'read_only'],
  /* IOERR */ [10, 'damaged'],
  /* CORRUPT */ [11, 'damaged'],
  /* FULL */ [13, 'full'],
  /* CANTOPEN */ [14, 'damaged'],
  /* PROTOCOL */ [15, 'busy'],
  /* NOLFS */ [22, 'full'],
  /* AUTH */ [23, 'refused'],
  /* NOTADB */ [26, 'damaged'],
])
const IOERR = 10

/** @returns the error itself if the database is not to blame for it */
function explainSqliteError(error: unknown, sql: string): unknown {
  const code = primaryResultCode(error)
  const kind = TROUBLES.get(code)
  if (kind === undefined || !(error instanceof Error)) return error
  // Any other failure leaves the transaction open; after one of the disk, the commit may be found in the log all the same.
  return new DatabaseUnavailable(kind, error.message, {
    isOutcomeUnknown: isCommit(sql) && code === IOERR,
  })
}

/** Extended codes have the primary one in their lowest byte. @returns 0 for an error that is not SQLite's */
export function primaryResultCode(error: unknown): number {
  return error instanceof Error && 'errcode' in error && typeof error.errcode === 'number'
    ? error.errcode & 0xff
    : 0
}
