import type { Config } from '../../../config/schema/schema.ts'
import { normalizeCidrs } from '../../../domain/address/cidr.ts'
import { mayConnectTo } from '../../../domain/address/public-address.ts'
import type { Clock } from '../../../domain/clock.ts'
import { auditWebhook, type Caller } from '../../platform/audit/entries.ts'
import type { RandomBytes } from '../../platform/ids.ts'
import { createRequestedDeliveries, type RequestedDeliveries } from '../requested-deliveries.ts'
import type { WebhookDeliveries } from '../webhook-deliveries.ts'
import type { Guard } from './guarded-connector.ts'
import { planWebhookUrl } from './webhook-address.ts'
import type { WorkspaceWebhook, WorkspaceWebhookStore } from './workspace-webhook-store.ts'

const SECRET_BYTES = 32

export type WorkspaceWebhookSettings = Config['webhooks']['workspaces']

export type SetResult =
  /** @property secret shown once */
  | { readonly ok: true; readonly webhook: WorkspaceWebhook; readonly secret: string }
  /** @property expected completes the sentence `url must be …` */
  | { readonly ok: false; readonly field: string; readonly expected: string }

/** What people and programs do with the webhook of a workspace. */
export interface WorkspaceWebhooks extends RequestedDeliveries {
  find(workspaceId: string): Promise<WorkspaceWebhook | null>
  /** Sets the address and makes a new secret, also where the address stays. */
  set(workspaceId: string, url: string, caller: Caller): Promise<SetResult>
  /** @returns whether there was one */
  remove(workspaceId: string, caller: Caller): Promise<boolean>
  readonly list: WebhookDeliveries['list']
}

interface Parts {
  readonly store: WorkspaceWebhookStore
  readonly settings: WorkspaceWebhookSettings
  readonly keyPrefix: string
  readonly clock: Clock
  readonly randomBytes: RandomBytes
  readonly newEventId: (nowMs: number) => string
  readonly newAuditId: (nowMs: number) => string
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

export function createWorkspaceWebhooks(parts: Parts): WorkspaceWebhooks {
  const { store, settings, keyPrefix, clock, randomBytes, newEventId, newAuditId } = parts
  const rules = { keyPrefix, allowHttp: settings.allowHttp, mayConnectTo: addressGuard(settings) }
  const audit = (caller: Caller) => {
    const atMs = clock.wallMs()
    return { id: newAuditId(atMs), atMs, caller }
  }
  return {
    ...createRequestedDeliveries(store.deliveries, clock, newEventId),
    list: store.deliveries.list,
    find: store.find,
    async set(workspaceId, text, caller) {
      const planned = planWebhookUrl(text, rules)
      if (!planned.ok) return planned
      const webhook = { url: planned.value, createdAtMs: clock.wallMs(), createdBy: caller.actor }
      const secret = `whsec_${Buffer.from(randomBytes(SECRET_BYTES)).toString('base64')}`
      await store.replace(workspaceId, { ...webhook, secret }, before => {
        const change = { old: webhookSiteOf(before), new: webhookSiteOf(webhook) }
        return auditWebhook('webhook.set', workspaceId, change, audit(caller))
      })
      return { ok: true, webhook, secret }
    },
    remove: (workspaceId, caller) =>
      store.remove(workspaceId, before => {
        return auditWebhook(
          'webhook.removed',
          workspaceId,
          { old: webhookSiteOf(before), new: null },
          audit(caller),
        )
      }),
  }
}

/** The address without its path, which may hold a secret of the receiver. */
export function webhookSiteOf(webhook: Pick<WorkspaceWebhook, 'url'> | null): string | null {
  return webhook === null ? null : new URL(webhook.url).origin
}
