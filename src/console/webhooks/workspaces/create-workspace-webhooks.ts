import type { OpenRegistry } from '../../keys/open-registry.ts'
import type { ConsoleContext } from '../../platform/console-context.ts'
import { createIds } from '../../platform/ids.ts'
import { startExpiryWatch } from '../expiry-watch.ts'
import { createResolver } from './guarded-connector.ts'
import { WorkspaceDispatcher } from './workspace-dispatcher.ts'
import { createWorkspaceSender } from './workspace-sender.ts'
import { createWorkspaceWebhookStore } from './workspace-webhook-store.ts'
import { addressGuard, createWorkspaceWebhooks, type WorkspaceWebhooks } from './workspace-webhooks.ts'

/** Webhooks of workspaces, while they run. */
export interface RunningWorkspaceWebhooks {
  readonly webhooks: WorkspaceWebhooks
  start(): void
  purge(): Promise<void>
  stop(): Promise<void>
}

/** @returns null unless the setting allows workspaces a webhook */
export function openWorkspaceWebhooks(
  context: ConsoleContext,
  { database, registry }: Pick<OpenRegistry, 'database' | 'registry'>,
): RunningWorkspaceWebhooks | null {
  const settings = context.config.webhooks.workspaces
  if (!settings.enabled) return null
  const { clock, metrics, randomBytes, config } = context
  const { timeoutMs } = settings
  const store = createWorkspaceWebhookStore(database, clock, metrics)
  const newEventId = createIds('msg', randomBytes)
  const guard = {
    mayConnectTo: addressGuard(settings),
    resolve: createResolver(timeoutMs),
    proxies: context.config.outgoing,
    timeoutMs,
  }
  const dispatcher = new WorkspaceDispatcher({
    ...context,
    store,
    sender: createWorkspaceSender(guard),
    timeoutMs,
  })
  const { newAuditId } = registry
  let stopWatch = () => {}
  return {
    webhooks: createWorkspaceWebhooks({
      ...{ store, settings, clock, randomBytes, newEventId, newAuditId },
      keyPrefix: config.keys.prefix,
    }),
    start() {
      dispatcher.start()
      stopWatch = startExpiryWatch({ ...context, deliveries: store.deliveries, newEventId })
    },
    purge: () => store.deliveries.purge(),
    async stop() {
      stopWatch()
      await dispatcher.stop()
    },
  }
}
