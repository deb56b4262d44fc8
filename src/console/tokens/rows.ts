import { type Kysely, sql, type Transaction } from 'kysely'
import type { AdminToken, Permission } from '../platform/access/principal.ts'
import type { Dialect } from '../platform/database/database.ts'
import { takePage } from '../platform/database/query-parts.ts'
import type { AdminTokenRow, Tables } from '../platform/database/tables.ts'

export interface TokenPage {
  readonly tokens: readonly AdminToken[]
  /** Where the next page starts; null on the last. */
  readonly nextAfterId: string | null
}

export interface TokenQuery {
  /** Only tokens that are confined to these workspaces; null for all tokens. */
  readonly workspaces: readonly string[] | null
  readonly limit: number
  readonly afterId: string | null
}

export async function insertToken(
  tx: Transaction<Tables>,
  { token, digest }: { readonly token: AdminToken; readonly digest: string },
): Promise<void> {
  const row: AdminTokenRow = {
    id: token.id,
    digest,
    name: token.name,
    hint: token.hint,
    permissions: JSON.stringify(token.permissions),
    workspaces: token.workspaces === null ? null : JSON.stringify(token.workspaces),
    created_at_ms: token.createdAtMs,
    created_by: token.createdBy,
    expires_at_ms: token.expiresAtMs,
    revoked_at_ms: token.revokedAtMs,
    last_used_at_ms: token.lastUsedAtMs,
  }
  await tx.insertInto('admin_tokens').values(row).execute()
}

export async function findToken(
  database: Kysely<Tables>,
  column: 'id' | 'digest',
  value: string,
): Promise<AdminToken | null> {
  const row = await database
    .selectFrom('admin_tokens')
    .selectAll()
    .where(column, '=', value)
    .executeTakeFirst()
  return row === undefined ? null : readTokenRow(row)
}

/** Newest first. */
export async function listTokens(
  database: Kysely<Tables>,
  { workspaces, limit, afterId }: TokenQuery,
  dialect: Dialect,
): Promise<TokenPage> {
  let query = database.selectFrom('admin_tokens').selectAll()
  if (afterId !== null) query = query.where('id', '<', afterId)
  if (workspaces !== null) query = query.where(isConfinedTo(workspaces, dialect))
  const newestFirst = query.orderBy('id', 'desc').limit(limit + 1)
  const { rows, next } = takePage(await newestFirst.execute(), limit, ({ id }) => id)
  return { tokens: rows.map(readTokenRow), nextAfterId: next }
}

function isConfinedTo(workspaces: readonly string[], dialect: Dialect) {
  const list = JSON.stringify(workspaces)
  return dialect === 'postgres'
    ? sql<boolean>`workspaces is not null and workspaces::jsonb <@ ${list}::jsonb`
    : sql<boolean>`workspaces is not null and not exists (
        select 1 from json_each(admin_tokens.workspaces) as own
        where own.value not in (select value from json_each(${list})))`
}

/** @returns false if it was revoked before */
export async function revokeTokenRow(tx: Transaction<Tables>, id: string, nowMs: number): Promise<boolean> {
  const { numUpdatedRows } = await tx
    .updateTable('admin_tokens')
    .set({ revoked_at_ms: nowMs })
    .where('id', '=', id)
    .where('revoked_at_ms', 'is', null)
    .executeTakeFirst()
  return numUpdatedRows > 0n
}

export async function recordTokenUse(writer: Kysely<Tables>, id: string, nowMs: number): Promise<void> {
  await writer
    .updateTable('admin_tokens')
    .set({ last_used_at_ms: nowMs })
    .where('id', '=', id)
    .where(row => row.or([row('last_used_at_ms', 'is', null), row('last_used_at_ms', '<', nowMs)]))
    .execute()
}

function readTokenRow(row: AdminTokenRow): AdminToken {
  return {
    id: row.id,
    name: row.name,
    hint: row.hint,
    // Only insertToken() above writes these two columns.
    permissions: JSON.parse(row.permissions) as Permission[],
    workspaces: row.workspaces === null ? null : (JSON.parse(row.workspaces) as string[]),
    createdAtMs: row.created_at_ms,
    createdBy: row.created_by,
    expiresAtMs: row.expires_at_ms,
    revokedAtMs: row.revoked_at_ms,
    lastUsedAtMs: row.last_used_at_ms,
  }
}
