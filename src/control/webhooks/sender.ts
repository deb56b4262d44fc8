import { createHmac } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { Agent } from 'undici'
import { neverReloads, type OnReload, reloadable } from '../../config/reloadable.ts'
import type { Config } from '../../config/schema/schema.ts'

/** Settings of a configured webhook. */
export type WebhookSettings = Config['console']['webhook'] & { readonly url: string; readonly secret: string }

export type SendResult =
  | { readonly ok: true; readonly status: number }
  | { readonly ok: false; readonly status: number | null; readonly reason: string }

interface SentEvent {
  readonly id: string
  readonly body: string
}

export interface Sender {
  /** Never rejects. It follows no redirect: the signature is meant for the configured URL. */
  send(event: SentEvent, nowMs: number): Promise<SendResult>
  stop(): Promise<void>
}

const MAX_RESPONSE_BYTES = 64 * 1024

/** @param onReload reports a new secret or certificate authority; URL and time-out change by restart only */
export function createSender(
  { url, timeoutMs, ...secrets }: WebhookSettings,
  onReload: OnReload<Partial<WebhookSettings>> = neverReloads,
): Sender {
  const { origin, pathname } = new URL(url)
  const current = reloadable<Partial<WebhookSettings>, Access>(secrets, onReload, next =>
    accessOf(next, timeoutMs),
  )
  return {
    async send(event, nowMs) {
      const { agent, secret } = current.value
      const headers = {
        ...signatureHeaders(event, secret, nowMs),
        'content-type': 'application/json',
        'user-agent': 'postern',
      }
      const signal = AbortSignal.timeout(timeoutMs)
      try {
        const request = { origin, path: pathname, method: 'POST', body: event.body } as const
        const response = await agent.request({ ...request, headers, signal })
        await response.body.dump({ limit: MAX_RESPONSE_BYTES, signal })
        const status = response.statusCode
        const isAccepted = status >= 200 && status < 300
        return isAccepted ? { ok: true, status } : { ok: false, status, reason: `Response status ${status}` }
      } catch (error) {
        return { ok: false, status: null, reason: failureReason(error, timeoutMs) }
      }
    },
    stop: () => current.value.agent.destroy(),
  }
}

interface Access {
  readonly agent: Agent
  readonly secret: string
}

/** @throws if the secret was removed or the CA file cannot be read */
function accessOf({ secret, caFile }: Partial<WebhookSettings>, timeoutMs: number): Access {
  if (secret === undefined) throw new Error('console.webhook.secret: is required with console.webhook.url')
  const ca = caFile === undefined ? {} : { ca: readFileSync(caFile) }
  return { secret, agent: new Agent({ connections: 4, connect: { ...ca, timeout: timeoutMs } }) }
}

/** As the Standard Webhooks specification 1.0.0 has them. @param secret base64, with or without `whsec_` */
function signatureHeaders({ id, body }: SentEvent, secret: string, sentAtMs: number) {
  const timestamp = String(Math.floor(sentAtMs / 1000))
  const key = Buffer.from(secret.replace(/^whsec_/, ''), 'base64')
  const mac = createHmac('sha256', key).update(`${id}.${timestamp}.${body}`).digest('base64')
  return { 'webhook-id': id, 'webhook-timestamp': timestamp, 'webhook-signature': `v1,${mac}` }
}

/** For the delivery log. It holds no internal address. */
function failureReason(error: unknown, timeoutMs: number): string {
  if (error instanceof Error && error.name === 'TimeoutError') return `No response within ${timeoutMs} ms`
  const code = error instanceof Error && 'code' in error ? String(error.code) : 'unknown'
  return `Connection failed (${code})`
}
