import { sql, type Transaction } from 'kysely'
import { COPIED_TABLES } from '../../src/console/backup/write-database.ts'
import { appendAudit } from '../../src/console/platform/audit/chain.ts'
import { auditIssue } from '../../src/console/platform/audit/entries.ts'
import { type AuditedDatabase, signQueued } from '../../src/console/platform/audit/mac.ts'
import { createIds } from '../../src/console/platform/database/ids.ts'
import { toKeyRow } from '../../src/console/platform/database/key-row.ts'
import type { AuditFields, QueuedAuditRow, Tables } from '../../src/console/platform/database/tables.ts'
import { createPartitions, partitionsCovering } from '../../src/console/usage/reports/rows.ts'
import { fingerprintSecret } from '../../src/domain/key/secret.ts'
import { trustIn } from './audit-trust.ts'
import { openDatabase } from './open-database.ts'
import { SIGNING_SECRET } from './signing-secret.ts'
import { NOW_MS, someKey } from './stored-keys.ts'

const KEYS_AT_ONCE = 500
const HOURS = Math.floor(NOW_MS / 3_600_000)
const DAYS = Math.floor(NOW_MS / 86_400_000)
const newAuditId = createIds('audit', size => Buffer.alloc(size, 7))

/** Adds this many keys, each with its audit entry. */
export async function addKeys(database: AuditedDatabase, count: number): Promise<void> {
  for (let left = count; left > 0; left -= KEYS_AT_ONCE) {
    const keys = Array.from({ length: Math.min(left, KEYS_AT_ONCE) }, () => someKey())
    await database.writer.transaction().execute(async tx => {
      await tx
        .insertInto('keys')
        .values(keys.map(key => toKeyRow(key, NOW_MS)))
        .execute()
      const entries = keys.map(({ record }) =>
        auditIssue(record, {
          id: newAuditId(NOW_MS),
          atMs: NOW_MS,
          caller: { actor: 'test', address: '192.0.2.1', requestId: 'r' },
        }),
      )
      await appendAudit(tx, entries, database)
    })
  }
}

/** As a console on PostgreSQL leaves it. */
function signed(entry: AuditFields): QueuedAuditRow {
  return { ...entry, ...signQueued(trustIn().keys, entry), rejected_at_ms: null }
}

/** A row in each table that `addKeys` leaves empty. */
type OtherTables = Omit<Tables, 'keys' | 'audit' | 'audit_head' | 'key_use' | 'kysely_migration'>

const ROWS: { readonly [Table in keyof OtherTables]: OtherTables[Table] } = {
  workspace_plans: { workspace_id: 'ws_1', plan: 'free' },
  outbox: {
    region: 'eu',
    digest: 'd',
    version: 3,
    at_ms: NOW_MS,
    claimed_by: 'c',
    claimed_until_ms: 5,
  },
  regions: {
    name: 'eu',
    seen_at_ms: NOW_MS,
    requeued_until: null,
    ...{ mark: 'm', marked_at_ms: NOW_MS, mark_kept_at_ms: 1 },
  },
  audit_queue: signed({
    id: 'audit_q',
    workspace_id: '',
    at_ms: NOW_MS,
    actor: 'a',
    action: 'x',
    key_id: '',
    detail: '{}',
  }),
  admin_tokens: {
    id: 'tok_1',
    digest: 'd',
    name: 'ci „“',
    hint: 'h',
    permissions: '["keys:read"]',
    workspaces: null,
    created_at_ms: NOW_MS,
    created_by: 'test',
    expires_at_ms: 4_102_444_800_000,
    revoked_at_ms: null,
    last_used_at_ms: null,
  },
  idempotent_responses: { id: 'i', request: 'r', outcome: '{}', at_ms: NOW_MS },
  sessions: {
    digest: 's',
    subject: 'ada',
    person: '{}',
    csrf_secret: 'c',
    started_at_ms: NOW_MS,
    seen_at_ms: NOW_MS,
  },
  gateways: { id: 'g', name: 'gateway', region: 'eu', seen_at_ms: NOW_MS, disconnected_at_ms: 0 },
  confirmations: { digest: 'd', version: 3, gateway_id: 'g', at_ms: NOW_MS },
  workspace_webhooks: {
    workspace_id: 'ws_1',
    url: 'https://example.com/',
    secret: 'whsec',
    created_at_ms: NOW_MS,
    created_by: 'test',
  },
  webhook_receivers: {
    receiver: 'ws_1',
    failures: 2,
    paused_until_ms: NOW_MS,
    claimed_until_ms: 0,
    attempted_at_ms: NOW_MS,
  },
  webhook_deliveries: {
    receiver: '',
    id: 'n',
    workspace_id: 'ws_1',
    key_id: 'k',
    type: 'key.revoked',
    deduplication_key: 'o-n',
    at_ms: NOW_MS,
    body: '{}',
    attempts: 2,
    due_at_ms: null,
    delivered_at_ms: NOW_MS,
    last_status: 204,
    last_error: null,
  },
  signing_secrets: {
    fingerprint: fingerprintSecret(SIGNING_SECRET),
    first_used_at_ms: NOW_MS,
    signs_audit_at_ms: 0,
  },
  usage_hours: {
    workspace_id: 'ws_1',
    key_id: '',
    bucket: HOURS,
    route: 'files',
    code: '200',
    count: 2 ** 40,
    ...{ count_00: null, count_05: 2 ** 39, count_10: 1, count_15: null, count_20: null, count_25: null },
    ...{ count_30: null, count_35: null, count_40: null, count_45: null, count_50: null, count_55: 3 },
  },
  usage_days: { workspace_id: 'ws_1', key_id: '', bucket: DAYS - 300, route: 'files', code: '200', count: 7 },
  usage_gateways: { gateway: 'g', sequence: 9, seen_at_ms: NOW_MS },
  refusals: {
    workspace_id: 'ws_1',
    at_ms: NOW_MS,
    id: 'r',
    key_id: 'k',
    route: 'files',
    code: 'key_revoked',
    reason: 'revoked',
    request_id: 'q',
    address: '192.0.2.1',
  },
  refusal_gaps: { workspace_id: 'ws_1', at_ms: NOW_MS },
  limit_uses: {
    id: 'l',
    workspace_id: 'ws_1',
    key_id: 'k',
    plan: 'free',
    policy: 'quota',
    window_seconds: 0,
    requests: 1_000_000_000,
    region: 'default',
    used: 800_000_000,
    percent: 80,
    ends_at_ms: NOW_MS,
    reported_at_ms: NOW_MS,
    sent_percent: 80,
    sent_at_ms: NOW_MS,
  },
}

async function addOtherRows({ writer, dialect }: AuditedDatabase): Promise<void> {
  await writer.transaction().execute(async tx => {
    if (dialect === 'postgres') {
      await createPartitions(tx, partitionsCovering('usage_hours', HOURS, HOURS))
      await createPartitions(tx, partitionsCovering('usage_days', DAYS - 300, DAYS - 300))
    }
    for (const [table, row] of Object.entries(ROWS)) await insert(tx, table, row)
  })
}

async function insert(tx: Transaction<Tables>, table: string, row: object): Promise<void> {
  const names = sql.join(Object.keys(row).map(name => sql.ref(name)))
  await sql`insert into ${sql.table(table)} (${names}) values (${sql.join(Object.values(row))})`.execute(tx)
}

/** Fills every table. */
export async function fillDatabase(url: string, keys: number): Promise<void> {
  const database = { ...(await openDatabase(url)), audit: trustIn() }
  try {
    await addKeys(database, keys)
    await addOtherRows(database)
  } finally {
    await database.close()
  }
}

/** All rows of every table, in the order of their keys. */
export async function readAll(url: string): Promise<Record<string, unknown[]>> {
  const database = await openDatabase(url)
  try {
    const tables: Record<string, unknown[]> = {}
    for (const { table, columns } of COPIED_TABLES) {
      const order = sql.join(columns.map(column => sql.ref(column)))
      const { rows } = await sql<object>`select * from ${sql.table(table)} order by ${order}`.execute(
        database.reader,
      )
      tables[table] = rows.map(row => ({ ...row }))
    }
    return tables
  } finally {
    await database.close()
  }
}
