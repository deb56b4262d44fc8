import type { DatabaseSync, SQLInputValue, StatementSync } from 'node:sqlite'
import { setImmediate } from 'node:timers/promises'
import {
  CompiledQuery,
  type DatabaseConnection,
  type DialectAdapter,
  type Driver,
  SqliteAdapter,
  type SqliteDatabase,
  SqliteDialect,
  SqliteDriver,
  type SqliteStatement,
} from 'kysely'

/** Kysely's SQLite dialect over `node:sqlite`, which differs from the expected driver in a few calls. */
export class NodeSqliteDialect extends SqliteDialect {
  readonly #database: SqliteDatabase

  constructor(database: DatabaseSync) {
    const bridged = bridge(database)
    super({ database: bridged })
    this.#database = bridged
  }

  override createDriver(): Driver {
    return new ImmediateDriver({ database: this.#database })
  }

  override createAdapter(): DialectAdapter {
    return new TransactionalDdlAdapter()
  }
}

/**
 * Every transaction writes, so it takes the write lock at once: a later upgrade of the lock would fail without waiting.
 *
 * `node:sqlite` is synchronous. Each transaction yields to the event loop first, so that a queue of them does not block
 * sockets and heartbeats.
 */
class ImmediateDriver extends SqliteDriver {
  override async beginTransaction(connection: DatabaseConnection): Promise<void> {
    await setImmediate()
    await connection.executeQuery(CompiledQuery.raw('begin immediate'))
  }
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
    prepare: sql => bridgeStatement(database.prepare(sql)),
  }
}

function bridgeStatement(statement: StatementSync): SqliteStatement {
  return {
    reader: statement.columns().length > 0,
    all: parameters => statement.all(...inputsOf(parameters)),
    run: parameters => statement.run(...inputsOf(parameters)),
    iterate: parameters => statement.iterate(...inputsOf(parameters)),
  }
}

/** Our typed queries pass text, numbers and null. `node:sqlite` throws on anything else. */
function inputsOf(parameters: readonly unknown[]): SQLInputValue[] {
  return parameters as SQLInputValue[]
}
