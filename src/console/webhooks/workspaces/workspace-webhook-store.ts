import type { Clock } from '../../../domain/clock.ts'
import type { Metrics } from '../../../observability/metrics/metrics.ts'
import { appendAudit, audited } from '../../platform/audit/chain.ts'
import type { AuditEntry } from '../../platform/audit/entries.ts'
import { createChangeWriter } from '../../platform/database/change-writer.ts'
import type { Database } from '../../platform/database/database.ts'
import type { WorkspaceWebhookRow } from '../../platform/database/tables.ts'
import { createWebhookDeliveries, type WebhookDeliveries } from '../webhook-deliveries.ts'
import {
  type ClaimedWebhook,
  claimWebhooks,
  deleteWebhook,
  findWebhook,
  releaseWebhook,
  storeWebhook,
} from './workspace-webhook-rows.ts'

/** A workspace's webhook, without its secret. */
export interface WorkspaceWebhook {
  readonly url: string
  readonly createdAtMs: number
  readonly createdBy: string
}

/** Webhooks of workspaces in the database. A change and its audit entry are one transaction. */
export interface WorkspaceWebhookStore {
  readonly deliveries: WebhookDeliveries
  find(workspaceId: string): Promise<WorkspaceWebhook | null>
  replace(
    workspaceId: string,
    webhook: WorkspaceWebhook & { readonly secret: string },
    audit: (before: WorkspaceWebhook | null) => AuditEntry,
  ): Promise<void>
  /** @returns whether there was one */
  remove(workspaceId: string, audit: (before: WorkspaceWebhook) => AuditEntry): Promise<boolean>
  claim(claim: { webhooks: number; eventsOfEach: number; forMs: number }): Promise<ClaimedWebhook[]>
  release(workspaceId: string, state: { failures: number; pausedUntilMs: number }): Promise<void>
}

export function createWorkspaceWebhookStore(
  database: Database,
  clock: Clock,
  metrics: Pick<Metrics, 'auditWriteFailures'>,
): WorkspaceWebhookStore {
  const { reader, dialect } = database
  const writer = createChangeWriter(database)
  return {
    deliveries: createWebhookDeliveries(database, clock, 'workspace'),
    find: async workspaceId => webhookOf(await findWebhook(reader, workspaceId)),
    replace: (workspaceId, webhook, audit) =>
      audited(metrics, () =>
        writer.run(async tx => {
          const before = webhookOf(await findWebhook(tx, workspaceId))
          await storeWebhook(tx, rowOf(workspaceId, webhook))
          await appendAudit(tx, [audit(before)], database)
        }),
      ),
    remove: (workspaceId, audit) =>
      audited(metrics, () =>
        writer.run(async tx => {
          const before = webhookOf(await findWebhook(tx, workspaceId))
          if (before === null || !(await deleteWebhook(tx, workspaceId))) return false
          await appendAudit(tx, [audit(before)], database)
          return true
        }),
      ),
    claim: ({ forMs, ...claim }) => {
      const nowMs = clock.wallMs()
      return writer.run(tx => claimWebhooks(tx, { ...claim, nowMs, claimedUntilMs: nowMs + forMs, dialect }))
    },
    release: (workspaceId, state) => writer.run(tx => releaseWebhook(tx, workspaceId, state)),
  }
}

function webhookOf(row: WorkspaceWebhookRow | undefined): WorkspaceWebhook | null {
  if (row === undefined) return null
  return { url: row.url, createdAtMs: row.created_at_ms, createdBy: row.created_by }
}

function rowOf(
  workspaceId: string,
  { url, secret, createdAtMs, createdBy }: WorkspaceWebhook & { readonly secret: string },
): WorkspaceWebhookRow {
  return {
    workspace_id: workspaceId,
    url,
    secret,
    created_at_ms: createdAtMs,
    created_by: createdBy,
    failures: 0,
    paused_until_ms: 0,
    claimed_until_ms: 0,
    attempted_at_ms: 0,
  }
}
