import type { PostgresPool, PostgresPoolClient } from 'kysely'
import type pg from 'pg'
import { DatabaseUnavailable, type ReportTrouble } from '../database-unavailable.ts'
import { explainConnectError, explainQueryError, isBroken } from './postgres-errors.ts'

/** Compiling a statement takes up to 0.7 s, and is done where its cost is overestimated; ours take milliseconds. */
const JIT_OFF = 'set jit = off'

/**
 * A pool whose errors are typed and counted. A connection that broke is thrown away: a statement on it fails at once, and the next
 * transaction has another.
 */
export function guardPool(pool: pg.Pool, report: ReportTrouble): PostgresPool {
  const prepared = new WeakSet<pg.PoolClient>()
  return {
    options: pool.options,
    end: () => pool.end(),
    async connect() {
      const client = await connectTo(pool, report)
      const guarded = guardClient(client, report)
      if (prepared.has(client)) return guarded
      try {
        await guarded.query(JIT_OFF, [])
      } catch (error) {
        guarded.release(true)
        throw error
      }
      prepared.add(client)
      return guarded
    },
  }
}

async function connectTo(pool: pg.Pool, report: ReportTrouble): Promise<pg.PoolClient> {
  try {
    return await pool.connect()
  } catch (error) {
    throw counted(explainConnectError(error), report)
  }
}

function guardClient(client: pg.PoolClient, report: ReportTrouble): PostgresPoolClient {
  let broken: unknown = null
  const query = async (sql: string, parameters: readonly unknown[]) => {
    if (broken !== null) throw broken
    try {
      return await client.query(sql, [...parameters])
    } catch (error) {
      const explained = counted(explainQueryError(error, sql), report)
      if (isBroken(explained)) broken = explained
      throw explained
    }
  }
  return {
    // The other form takes a cursor, which Kysely has only if its configuration has one.
    query: query as unknown as PostgresPoolClient['query'],
    release: destroy => client.release(destroy === true || broken !== null),
  }
}

function counted(error: unknown, report: ReportTrouble): unknown {
  if (error instanceof DatabaseUnavailable) report(error.kind)
  return error
}
