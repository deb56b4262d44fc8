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

/** Kysely's own SQLite dialect over `node:sqlite`, which differs from the driver it expects in a few calls only. */
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
 * Every transaction of ours writes. One that took its write lock only half way would be refused at once, without
 * waiting, when another process wrote in between.
 *
 * Nothing in a transaction ever waits, so a queue of them would run in one go, while sockets and timers, and with them
 * the beats, stand still: each lets the event loop turn once before it begins.
 */
class ImmediateDriver extends SqliteDriver {
  override async beginTransaction(connection: DatabaseConnection): Promise<void> {
    await setImmediate()
    await connection.executeQuery(CompiledQuery.raw('begin immediate'))
  }
}

/** SQLite can roll back schema changes; so a migration is whole or not there, also with two consoles starting. */
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

/** Kysely hands over what our typed queries put in: text, numbers and null. `node:sqlite` throws on anything else. */
function inputsOf(parameters: readonly unknown[]): SQLInputValue[] {
  return parameters as SQLInputValue[]
}
