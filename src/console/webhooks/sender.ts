import { readNamedFile } from '../../config/read-named-file.ts'
import { neverReloads, type OnReload, reloadable } from '../../config/reloadable.ts'
import type { Config } from '../../config/schema/schema.ts'
import type { ProxySettings } from '../../domain/proxy.ts'
import { OutgoingClient } from '../../outgoing/outgoing-client.ts'
import { ProxyError } from '../../outgoing/proxy-error.ts'
import { isAccepted, postEvent, type SentEvent } from './post-event.ts'

/** Settings of a configured webhook. */
export type WebhookSettings = Config['console']['webhook'] & { readonly url: string; readonly secret: string }

export type SendResult =
  | { readonly ok: true; readonly status: number }
  /**
   * @property reason for the page of deliveries
   * @property cause for the operator's log; null where the reason says it all
   */
  | {
      readonly ok: false
      readonly status: number | null
      readonly reason: string
      readonly cause: string | null
    }

export interface Sender {
  /** Never rejects. It follows no redirect: the signature is meant for the configured URL. */
  send(event: SentEvent, nowMs: number): Promise<SendResult>
  stop(): Promise<void>
}

/** @param onReload reports a new secret or certificate authority; URL and time-out change by restart only */
export function createSender(
  { url, timeoutMs, ...secrets }: WebhookSettings,
  proxies: ProxySettings,
  onReload: OnReload<Partial<WebhookSettings>> = neverReloads,
): Sender {
  const target = new URL(url)
  const current = reloadable<Partial<WebhookSettings>, Access>(secrets, onReload, next =>
    accessOf(next, { proxies, timeoutMs }),
  )
  return {
    async send(event, nowMs) {
      const { client, secret } = current.value
      const signal = AbortSignal.timeout(timeoutMs)
      try {
        const status = await postEvent(client, { url: target, secret }, event, { nowMs, signal })
        if (isAccepted(status)) return { ok: true, status }
        return { ok: false, status, reason: `Response status ${status}`, cause: null }
      } catch (error) {
        const cause = error instanceof ProxyError ? error.message : null
        return { ok: false, status: null, reason: failureReason(error, timeoutMs), cause }
      }
    },
    stop: () => current.value.client.stop(),
  }
}

interface Access {
  readonly client: OutgoingClient
  readonly secret: string
}

/** @throws if the secret was removed or the CA file cannot be read */
function accessOf(
  { secret, caFile }: Partial<WebhookSettings>,
  { proxies, timeoutMs }: { readonly proxies: ProxySettings; readonly timeoutMs: number },
): Access {
  if (secret === undefined) throw new Error('console.webhook.secret: is required with console.webhook.url')
  const ca = caFile === undefined ? undefined : readNamedFile(caFile, 'console.webhook.caFile')
  return { secret, client: new OutgoingClient({ proxies, ca, connectTimeoutMs: timeoutMs, connections: 4 }) }
}

/** For the delivery log. It holds no internal address. */
function failureReason(error: unknown, timeoutMs: number): string {
  if (error instanceof Error && error.name === 'TimeoutError') return `No response within ${timeoutMs} ms`
  const code = error instanceof Error && 'code' in error ? String(error.code) : 'unknown'
  return `Connection failed (${code})`
}
