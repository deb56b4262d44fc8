import { createHmac } from 'node:crypto'
import type { OutgoingClient } from '../../outgoing/outgoing-client.ts'

export interface SentEvent {
  readonly id: string
  readonly body: string
}

export interface Receiver {
  readonly url: URL
  /** Base64, with or without `whsec_`. */
  readonly secret: string
}

const MAX_RESPONSE_BYTES = 64 * 1024

/** Follows no redirect: the signature is meant for this URL. @returns the status; throws without a whole response */
export async function postEvent(
  client: OutgoingClient,
  { url, secret }: Receiver,
  event: SentEvent,
  { nowMs, signal }: { readonly nowMs: number; readonly signal: AbortSignal },
): Promise<number> {
  const headers = {
    ...signatureHeaders(event, secret, nowMs),
    'content-type': 'application/json',
    'user-agent': 'postern',
  }
  const response = await client.request(url, { method: 'POST', body: event.body, headers, signal })
  await response.body.dump({ limit: MAX_RESPONSE_BYTES, signal })
  return response.statusCode
}

export function isAccepted(status: number): boolean {
  return status >= 200 && status < 300
}

/** As the Standard Webhooks specification 1.0.0 has them. */
function signatureHeaders({ id, body }: SentEvent, secret: string, sentAtMs: number) {
  const timestamp = String(Math.floor(sentAtMs / 1000))
  const key = Buffer.from(secret.replace(/^whsec_/, ''), 'base64')
  const mac = createHmac('sha256', key).update(`${id}.${timestamp}.${body}`).digest('base64')
  return { 'webhook-id': id, 'webhook-timestamp': timestamp, 'webhook-signature': `v1,${mac}` }
}
