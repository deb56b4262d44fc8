import type pg from 'pg'
import { StartError } from '../../../domain/start-error.ts'
import { DatabaseUnavailable } from './database-unavailable.ts'

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

/**
 * Applies the rules to a new session. Poolers refuse startup parameters, so there are none. What a pooler shares by transaction has no session
 * of its own: a setting would be lost, and would reach others. Behind any pooler each transaction sets them for itself.
 * @returns whether no pooler is in between
 */
export async function prepareSession(client: pg.PoolClient, rules: SessionRules): Promise<boolean> {
  const { settings, use, refusesPooler } = rules
  const all = use === 'any' ? { ...settings, default_transaction_read_only: 'on' } : settings
  // Local to this statement, and so without effect, behind a pooler.
  const set = Object.entries(all).map(
    ([name, value]) => `set_config('${name}', '${value}', pg_backend_pid() <> ${pidOf(client)})`,
  )
  const query = {
    text: `select ${[`pg_backend_pid() as pid`, STATE, ...set].join(', ')}`,
    query_timeout: PREPARE_TIMEOUT_MS,
  }
  const { rows } = await client.query<ServerState & { pid: number }>(query)
  const [state] = rows
  if (state?.is_standby === true && use !== 'any') throw standby()
  const isDirect = state?.pid === pidOf(client)
  if (!isDirect && refusesPooler !== undefined) throw new StartError(refusesPooler)
  return isDirect
}

/** That of the server process, which poolers replace by one of their own. The driver does not document it: without it, each server counts as a pooler. */
function pidOf(client: pg.PoolClient): number {
  return 'processID' in client && typeof client.processID === 'number' ? client.processID : 0
}

/** @returns the statement that begins a transaction under these rules */
export function transactionStart(begin: string, isDirect: boolean, { settings, use }: SessionRules): string {
  const statements = [begin]
  if (!isDirect) {
    statements.push(...Object.entries(settings).map(([name, value]) => `set local ${name} = '${value}'`))
    if (use === 'any' && !begin.includes('read write'))
      statements.push('set local transaction_read_only = on')
  }
  // A pooler may have another server for each transaction.
  if (use === 'write' || !isDirect) statements.push(`select ${STATE}`)
  return statements.join('; ')
}

/**
 * After a failover, a session or a pooler may lead to a server that does not write, or is behind the primary.
 * @param row the last one of what began the transaction
 * @throws DatabaseUnavailable if the rules do not admit the server
 */
export function requireUse(row: unknown, { use }: SessionRules): void {
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
