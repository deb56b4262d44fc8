import { readFileSync } from 'node:fs'
import { Agent } from 'undici'
import { neverReloads, type OnReload, reloadable } from '../../config/reloadable.ts'
import type { Config } from '../../config/schema.ts'
import { signDelivery } from './sign.ts'

/** Settings of a webhook that is configured at all. */
export type WebhookSettings = Config['console']['webhook'] & { readonly url: string; readonly secret: string }

export type SendResult =
  | { readonly ok: true; readonly status: number }
  | { readonly ok: false; readonly status: number | null; readonly reason: string }

export interface Sender {
  /** Never rejects. Redirects are not followed: what was signed is for the address that was configured. */
  send(notice: { readonly id: string; readonly body: string }, nowMs: number): Promise<SendResult>
  stop(): Promise<void>
}

const MAX_ANSWER_BYTES = 64 * 1024

/** @param onReload of the secret and the certificate authority; the address and the time stay as they are */
export function createSender(
  { url, timeoutMs, ...secrets }: WebhookSettings,
  onReload: OnReload<Partial<WebhookSettings>> = neverReloads,
): Sender {
  const { origin, pathname } = new URL(url)
  const current = reloadable<Partial<WebhookSettings>, Access>(secrets, onReload, next =>
    accessOf(next, timeoutMs),
  )
  return {
    async send(notice, nowMs) {
      const { agent, secret } = current.value
      const headers = {
        ...signDelivery(notice, secret, nowMs),
        'content-type': 'application/json',
        'user-agent': 'postern',
      }
      const signal = AbortSignal.timeout(timeoutMs)
      try {
        const request = { origin, path: pathname, method: 'POST', body: notice.body } as const
        const answer = await agent.request({ ...request, headers, signal })
        await answer.body.dump({ limit: MAX_ANSWER_BYTES, signal })
        const status = answer.statusCode
        const isTaken = status >= 200 && status < 300
        return isTaken ? { ok: true, status } : { ok: false, status, reason: `It answered ${status}` }
      } catch (error) {
        return { ok: false, status: null, reason: reasonOf(error, timeoutMs) }
      }
    },
    stop: () => current.value.agent.destroy(),
  }
}

interface Access {
  readonly agent: Agent
  readonly secret: string
}

/** @throws where the secret was taken away, or the file of the authority cannot be read */
function accessOf({ secret, caFile }: Partial<WebhookSettings>, timeoutMs: number): Access {
  if (secret === undefined) throw new Error('console.webhook.secret: is required with console.webhook.url')
  const ca = caFile === undefined ? {} : { ca: readFileSync(caFile) }
  return { secret, agent: new Agent({ connections: 4, connect: { ...ca, timeout: timeoutMs } }) }
}

/** For the delivery log: what went wrong, and no address of the inside. */
function reasonOf(error: unknown, timeoutMs: number): string {
  if (error instanceof Error && error.name === 'TimeoutError') return `No answer within ${timeoutMs} ms`
  const code = error instanceof Error && 'code' in error ? String(error.code) : 'unknown'
  return `The connection failed (${code})`
}
