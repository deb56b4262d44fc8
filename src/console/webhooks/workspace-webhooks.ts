import { isIP } from 'node:net'
import type { Kysely, Transaction } from 'kysely'
import type { Config } from '../../config/schema/schema.ts'
import type { Clock } from '../../domain/clock.ts'
import { mayConnectTo, normalizeCidrs, withoutBrackets } from '../../domain/form/address.ts'
import { type Planned, wrong } from '../../domain/key/key-fields.ts'
import { holdsSecretForm } from '../../domain/key/secret.ts'
import type { Metrics } from '../../observability/metrics/metrics.ts'
import type { Caller } from '../platform/access/principal.ts'
import { appendAudit, runAudited } from '../platform/audit/chain.ts'
import { auditWebhook, type WebhookAction } from '../platform/audit/entries.ts'
import type { AuditedDatabase } from '../platform/audit/mac.ts'
import type { RandomBytes } from '../platform/database/ids.ts'
import type { Tables, WorkspaceWebhookRow } from '../platform/database/tables.ts'
import { REMOVED } from './channels.ts'
import type { DeliveryLog } from './dispatcher.ts'
import type { Guard } from './guarded-connector.ts'
import { closeReceiver, openReceiver } from './rows.ts'

const SECRET_BYTES = 32
export const MAX_URL_LENGTH = 2_048
const VISIBLE_ASCII = /^[\x21-\x7e]+$/
const LOWEST_OTHER_PORT = 1_024
export const URL_EXPECTED = describeUrl('an https:', '443')
const ALSO_HTTP_EXPECTED = describeUrl('an https: or http:', '443, 80')
const ADDRESS_EXPECTED = 'an address that this console may send to: public, or allowed by its operator'

function describeUrl(protocols: string, ports: string): string {
  return `${protocols} address of at most ${MAX_URL_LENGTH} characters, without user or fragment, on port ${ports} or one from ${LOWEST_OTHER_PORT}`
}

type WorkspaceWebhookSettings = Config['webhooks']['workspaces']

/** A workspace's webhook, without its secret. */
export interface WorkspaceWebhook {
  readonly url: string
  readonly createdAtMs: number
  readonly createdBy: string
}

type SetResult =
  /** @property secret shown once */
  | { readonly ok: true; readonly webhook: WorkspaceWebhook; readonly secret: string }
  /** @property expected completes the sentence `url must be …` */
  | { readonly ok: false; readonly field: string; readonly expected: string }

/** What people and programs do with the webhook of a workspace. A change and its audit entry are one transaction. */
export type WorkspaceWebhooks = ReturnType<typeof createWorkspaceWebhooks>

interface Parts {
  readonly database: AuditedDatabase
  readonly deliveries: DeliveryLog
  readonly settings: WorkspaceWebhookSettings
  readonly keyPrefix: string
  readonly clock: Clock
  readonly randomBytes: RandomBytes
  readonly newAuditId: (nowMs: number) => string
  readonly metrics: Pick<Metrics, 'auditWriteFailures'>
}

interface Change {
  readonly old: WorkspaceWebhook | null
  readonly now: WorkspaceWebhook | null
}

export function createWorkspaceWebhooks(parts: Parts) {
  const { database, settings, keyPrefix, clock, randomBytes, newAuditId } = parts
  const rules = { keyPrefix, allowHttp: settings.allowHttp, mayConnectTo: addressGuard(settings) }
  const audit = (action: WebhookAction, workspaceId: string, { old, now }: Change, caller: Caller) => {
    const atMs = clock.wallMs()
    const site = { old: webhookOrigin(old), new: webhookOrigin(now) }
    return auditWebhook(action, workspaceId, site, { id: newAuditId(atMs), atMs, caller })
  }
  return {
    deliveries: parts.deliveries,
    /** Whether addresses of `http:` are allowed, too. */
    allowHttp: settings.allowHttp,
    find: async (workspaceId: string) => readWebhookRow(await findWebhook(database.reader, workspaceId)),
    /** Sets the address and makes a new secret, also where the address stays. */
    async set(workspaceId: string, text: string, caller: Caller): Promise<SetResult> {
      const planned = planWebhookUrl(text, rules)
      if (!planned.ok) return planned
      const webhook = { url: planned.value, createdAtMs: clock.wallMs(), createdBy: caller.actor }
      const secret = `whsec_${Buffer.from(randomBytes(SECRET_BYTES)).toString('base64')}`
      await runAudited(parts, async tx => {
        const before = readWebhookRow(await findWebhook(tx, workspaceId))
        await storeWebhook(tx, toWebhookRow(workspaceId, webhook, secret))
        const entry = audit('webhook.set', workspaceId, { old: before, now: webhook }, caller)
        await appendAudit(tx, [entry], database)
      })
      return { ok: true, webhook, secret }
    },
    /** @returns whether there was one */
    remove: (workspaceId: string, caller: Caller) =>
      runAudited(parts, async tx => {
        const before = await deleteWebhook(tx, workspaceId)
        if (before === null) return false
        const entry = audit('webhook.removed', workspaceId, { old: before, now: null }, caller)
        await appendAudit(tx, [entry], database)
        return true
      }),
  }
}

export async function findWebhook(
  database: Kysely<Tables>,
  workspaceId: string,
): Promise<WorkspaceWebhookRow | null> {
  const query = database.selectFrom('workspace_webhooks').selectAll().where('workspace_id', '=', workspaceId)
  return (await query.executeTakeFirst()) ?? null
}

/** Replaces an earlier one. What waits goes to the new address at once. */
async function storeWebhook(tx: Transaction<Tables>, row: WorkspaceWebhookRow): Promise<void> {
  const { workspace_id, ...changed } = row
  await tx
    .insertInto('workspace_webhooks')
    .values(row)
    .onConflict(conflict => conflict.column('workspace_id').doUpdateSet(changed))
    .execute()
  await openReceiver(tx, workspace_id, row.created_at_ms)
}

/** @returns the one that this deleted: of two removals at once, the second deletes none */
async function deleteWebhook(tx: Transaction<Tables>, workspaceId: string): Promise<WorkspaceWebhook | null> {
  const query = tx.deleteFrom('workspace_webhooks').where('workspace_id', '=', workspaceId).returningAll()
  const deleted = readWebhookRow((await query.executeTakeFirst()) ?? null)
  if (deleted !== null) await closeReceiver(tx, workspaceId, REMOVED)
  return deleted
}

function readWebhookRow(row: WorkspaceWebhookRow | null): WorkspaceWebhook | null {
  if (row === null) return null
  return { url: row.url, createdAtMs: row.created_at_ms, createdBy: row.created_by }
}

function toWebhookRow(
  workspaceId: string,
  { url, createdAtMs, createdBy }: WorkspaceWebhook,
  secret: string,
): WorkspaceWebhookRow {
  return { workspace_id: workspaceId, url, secret, created_at_ms: createdAtMs, created_by: createdBy }
}

/** The address without its path, which may hold a secret of the receiver. */
export function webhookOrigin(webhook: Pick<WorkspaceWebhook, 'url'> | null): string | null {
  return webhook === null ? null : new URL(webhook.url).origin
}

/** Which addresses the settings allow. @throws if a network of the settings cannot be read */
export function addressGuard({ allowedCidrs, deniedCidrs }: WorkspaceWebhookSettings): Guard['mayConnectTo'] {
  const policy = { allowedCidrs: parsed(allowedCidrs), deniedCidrs: parsed(deniedCidrs) }
  return address => mayConnectTo(address, policy)
}

function parsed(cidrs: readonly string[]): readonly string[] {
  const networks = normalizeCidrs(cidrs)
  if (networks !== null) return networks
  throw new Error('webhooks.workspaces: allowedCidrs and deniedCidrs must be networks without a zone')
}

interface UrlRules {
  /** What keys begin with: no address may hold a key. */
  readonly keyPrefix: string
  readonly allowHttp: boolean
  readonly mayConnectTo: (address: string) => boolean
}

/** The receiver's address in its one form. A name is checked whenever a connection is made. */
export function planWebhookUrl(
  text: string,
  { keyPrefix, allowHttp, mayConnectTo: isAllowed }: UrlRules,
): Planned<string> {
  const url = text.length <= MAX_URL_LENGTH && VISIBLE_ASCII.test(text) ? URL.parse(text) : null
  const protocols = allowHttp ? ['https:', 'http:'] : ['https:']
  const expected = allowHttp ? ALSO_HTTP_EXPECTED : URL_EXPECTED
  if (url === null || !protocols.includes(url.protocol) || url.hostname === '') return wrong('url', expected)
  const hasCredentials = url.username !== '' || url.password !== ''
  if (hasCredentials || text.includes('#') || !isAllowedPort(url.port)) return wrong('url', expected)
  if (holdsSecretForm(text, keyPrefix)) return wrong('url', 'an address without an API key or token in it')
  // The parser has turned forms such as 0x7f.1 into addresses.
  const host = withoutBrackets(url.hostname)
  if (isIP(host) !== 0 && !isAllowed(host)) return wrong('url', ADDRESS_EXPECTED)
  return { ok: true, value: url.href }
}

/** @param port empty for that of the protocol. Lower ports belong to services of other protocols */
function isAllowedPort(port: string): boolean {
  return port === '' || Number(port) >= LOWEST_OTHER_PORT
}
