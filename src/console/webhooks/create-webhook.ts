import type { OnReload } from '../../config/reloadable.ts'
import type { Config } from '../../config/schema/schema.ts'
import type { ProxySettings } from '../../domain/proxy.ts'
import { startExpiryWatch } from './expiry-watch.ts'
import { createSender, type WebhookSettings } from './sender.ts'
import { WebhookDispatcher, type WebhookDispatcherParts } from './webhook-dispatcher.ts'
import type { EventReceiver } from './webhook-event.ts'

export interface Webhook {
  start(): void
  stop(): Promise<void>
}

type Parts = Omit<WebhookDispatcherParts, 'sender' | 'timeoutMs'> & {
  readonly newEventId: (nowMs: number) => string
  /** Of the secret and the certificate authority. */
  readonly onReload: OnReload<Config['console']['webhook']>
  readonly proxies: ProxySettings
}

export function isWebhookConfigured(webhook: Config['console']['webhook']): webhook is WebhookSettings {
  return webhook.url !== undefined && webhook.secret !== undefined
}

/** Who receives events of keys: the operator, workspaces with a webhook of their own, both or neither. */
export function eventReceiversOf({ console, webhooks }: Config): readonly EventReceiver[] {
  const toOperator: EventReceiver[] = isWebhookConfigured(console.webhook) ? ['operator'] : []
  return webhooks.workspaces.enabled ? [...toOperator, 'workspace'] : toOperator
}

/** Dispatcher and expiry watch; null if no webhook is configured. */
export function createWebhook(settings: Config['console']['webhook'], parts: Parts): Webhook | null {
  if (!isWebhookConfigured(settings)) return null
  const { timeoutMs } = settings
  const sender = createSender(settings, parts.proxies, parts.onReload)
  const dispatcher = new WebhookDispatcher({ ...parts, sender, timeoutMs })
  let stopWatch = () => {}
  return {
    start() {
      dispatcher.start()
      stopWatch = startExpiryWatch(parts)
    },
    async stop() {
      stopWatch()
      await dispatcher.stop()
    },
  }
}
