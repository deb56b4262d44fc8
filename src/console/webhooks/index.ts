import { onReloadOf } from '../../config/reloadable.ts'
import type { OpenRegistry } from '../keys/open-registry.ts'
import type { Capability } from '../platform/capability.ts'
import type { ConsoleContext } from '../platform/console-context.ts'
import { bindCalls } from '../platform/http/admin-call.ts'
import { createIds } from '../platform/ids.ts'
import { createWebhook, isWebhookConfigured } from './create-webhook.ts'
import { DELIVERY_CALLS } from './delivery-calls.ts'
import { deliveryRoutes } from './delivery-routes.ts'
import { createRequestedDeliveries } from './requested-deliveries.ts'
import { createOperatorDeliveries } from './webhook-deliveries.ts'
import { webhookRoutes } from './webhook-routes.ts'
import { WORKSPACE_WEBHOOK_CALLS } from './workspace-webhook-calls.ts'
import { openWorkspaceWebhooks } from './workspaces/create-workspace-webhooks.ts'

/** Events of keys, to the operator and to workspaces. */
export function createWebhooks(context: ConsoleContext, open: OpenRegistry): Capability {
  const { config, clock, randomBytes, onReload } = context
  const newEventId = createIds('msg', randomBytes)
  const deliveries = createOperatorDeliveries(open.database, clock)
  const operator = createWebhook(config.console.webhook, {
    ...context,
    deliveries,
    newEventId,
    onReload: onReloadOf(onReload, next => next.console.webhook),
    proxies: config.outgoing,
  })
  const workspaces = openWorkspaceWebhooks(context, open)
  const workspaceWebhooks = workspaces?.webhooks ?? null
  const pageParts = {
    registry: open.registry,
    workspaceWebhooks,
    deliveries: isWebhookConfigured(config.console.webhook)
      ? { list: deliveries.list, ...createRequestedDeliveries(deliveries, clock, newEventId) }
      : null,
  }
  return {
    calls: [
      ...bindCalls(DELIVERY_CALLS, { deliveries }),
      ...bindCalls(WORKSPACE_WEBHOOK_CALLS, { workspaceWebhooks }),
    ],
    registerPages(scope) {
      deliveryRoutes(scope, pageParts)
      webhookRoutes(scope, pageParts)
    },
    start() {
      operator?.start()
      workspaces?.start()
    },
    async purge() {
      await deliveries.purge()
      await workspaces?.purge()
    },
    async stop() {
      await operator?.stop()
      await workspaces?.stop()
    },
  }
}
