import { narrowReload } from '../../config/reloadable.ts'
import type { KeysById } from '../../domain/key/key-record.ts'
import type { AuditedDatabase } from '../platform/audit/mac.ts'
import type { Capability, ConsoleContext } from '../platform/capability.ts'
import type { Database } from '../platform/database/database.ts'
import { createIds } from '../platform/database/ids.ts'
import { bindCalls } from '../platform/http/calls.ts'
import type { AddLimitEvents } from '../usage/index.ts'
import { WEBHOOK_CALLS } from './api.ts'
import { type Channel, createOperatorChannel, createWorkspaceChannel } from './channels.ts'
import { createDeliveries, type Deliveries, Dispatcher } from './dispatcher.ts'
import { configuredReceivers, createLimitEvent, isWebhookConfigured } from './events.ts'
import { startExpiryWatch } from './expiry-watch.ts'
import { createResolver } from './guarded-connector.ts'
import { webhookPages } from './pages.ts'
import { insertEvents } from './rows.ts'
import {
  addressGuard,
  createWorkspaceWebhooks,
  findWebhook,
  type WorkspaceWebhooks,
} from './workspace-webhooks.ts'

export { WEBHOOK_CALLS } from './api.ts'
export { configuredReceivers, createChangeEvents } from './events.ts'
export { insertEvents, type WebhookEvent } from './rows.ts'

/** Adds the events of limits that were nearly or wholly used up, for the receivers of changes. */
export function createAddLimitEvents({ config, clock, randomBytes }: ConsoleContext): AddLimitEvents {
  const receivers = configuredReceivers(config)
  const newEventId = createIds('msg', randomBytes)
  return async (tx, reached) => {
    const events = reached.flatMap(limit => {
      const event = createLimitEvent(limit, newEventId(clock.wallMs()))
      return receivers.map(receiver => ({ ...event, receiver }))
    })
    await insertEvents(tx, events)
  }
}

/** What webhooks need of the registry of keys. */
interface WebhookSources {
  readonly database: AuditedDatabase
  readonly stored: { findByIds(ids: readonly string[]): Promise<KeysById> }
  readonly registry: { readonly newAuditId: (nowMs: number) => string }
}

/** Events of keys, to the operator and to workspaces. */
export function createWebhooks(context: ConsoleContext, sources: WebhookSources): Capability {
  const { config, clock, randomBytes } = context
  const { database, stored } = sources
  const newEventId = createIds('msg', randomBytes)
  const deliveries = createDeliveries(database, clock, newEventId)
  const channels = createChannels(context, database)
  const dispatcher = new Dispatcher({ ...context, deliveries, channels })
  const workspaceWebhooks = openWorkspaceWebhooks(context, sources, deliveries)
  const toOperator = deliveries.log('operator')
  let stopWatch = () => {}
  return {
    calls: bindCalls(WEBHOOK_CALLS, { deliveries: toOperator, workspaceWebhooks }),
    registerPages: scope =>
      webhookPages(scope, {
        clock,
        findKeys: ids => stored.findByIds(ids),
        workspaceWebhooks,
        deliveries: isWebhookConfigured(config.console.webhook) ? toOperator : null,
      }),
    start() {
      dispatcher.start()
      const receivers = channels.map(({ kind }) => kind)
      stopWatch = startExpiryWatch({ ...context, reader: database.reader, deliveries, receivers, newEventId })
    },
    purge: () => deliveries.purge(),
    async stop() {
      stopWatch()
      await dispatcher.stop()
    },
  }
}

/** One for the operator, for workspaces, both or neither: as `configuredReceivers` lists. */
function createChannels({ config, onReload }: ConsoleContext, { reader }: Database): readonly Channel[] {
  const { webhook } = config.console
  const ofWorkspaces = config.webhooks.workspaces
  const channels: Channel[] = []
  if (isWebhookConfigured(webhook)) {
    const onWebhookReload = narrowReload(onReload, next => next.console.webhook)
    channels.push(createOperatorChannel(webhook, config.outgoing, onWebhookReload))
  }
  if (ofWorkspaces.enabled) {
    const { timeoutMs } = ofWorkspaces
    const resolve = createResolver(timeoutMs)
    const mayConnectTo = addressGuard(ofWorkspaces)
    const guard = { mayConnectTo, resolve, proxies: config.outgoing, timeoutMs }
    channels.push(createWorkspaceChannel(guard, workspaceId => findWebhook(reader, workspaceId)))
  }
  return channels
}

/** @returns null unless the setting allows workspaces a webhook */
function openWorkspaceWebhooks(
  context: ConsoleContext,
  { database, registry }: WebhookSources,
  deliveries: Deliveries,
): WorkspaceWebhooks | null {
  const { config } = context
  const settings = config.webhooks.workspaces
  if (!settings.enabled) return null
  return createWorkspaceWebhooks({
    ...context,
    database,
    deliveries: deliveries.log('workspace'),
    settings,
    keyPrefix: config.keys.prefix,
    newAuditId: registry.newAuditId,
  })
}
