import type { OnReload } from '../../config/reloadable.ts'
import type { Config } from '../../config/schema.ts'
import { Courier, type CourierParts } from './dispatcher.ts'
import { startExpiryWatch } from './expiry-watch.ts'
import { createSender, type WebhookSettings } from './send.ts'

export interface Webhook {
  start(): void
  stop(): Promise<void>
}

type Parts = Omit<CourierParts, 'sender' | 'timeoutMs'> & {
  readonly newNoticeId: (nowMs: number) => string
  /** Of another secret and certificate authority. */
  readonly onReload: OnReload<Config['console']['webhook']>
}

export function isWebhookOn(webhook: Config['console']['webhook']): webhook is WebhookSettings {
  return webhook.url !== undefined && webhook.secret !== undefined
}

/** What tells the webhook: of changes, which are noted with them, and of keys that expire. Null where there is none. */
export function createWebhook(settings: Config['console']['webhook'], parts: Parts): Webhook | null {
  if (!isWebhookOn(settings)) return null
  const { timeoutMs } = settings
  const courier = new Courier({ ...parts, sender: createSender(settings, parts.onReload), timeoutMs })
  let stopWatch = () => {}
  return {
    start() {
      courier.start()
      stopWatch = startExpiryWatch(parts)
    },
    async stop() {
      stopWatch()
      await courier.stop()
    },
  }
}
