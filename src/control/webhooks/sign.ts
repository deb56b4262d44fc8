import { createHmac } from 'node:crypto'

/** The headers of a delivery, as the Standard Webhooks specification has them (standardwebhooks.com, version 1.0.0). */
export interface SignedHeaders {
  readonly 'webhook-id': string
  readonly 'webhook-timestamp': string
  readonly 'webhook-signature': string
}

/**
 * @param secret base64, with or without the prefix `whsec_`
 * @param sentAtMs milliseconds since the epoch; the header has seconds
 */
export function signDelivery(
  { id, body }: { readonly id: string; readonly body: string },
  secret: string,
  sentAtMs: number,
): SignedHeaders {
  const timestamp = String(Math.floor(sentAtMs / 1000))
  const key = Buffer.from(secret.replace(/^whsec_/, ''), 'base64')
  const mac = createHmac('sha256', key).update(`${id}.${timestamp}.${body}`).digest('base64')
  return { 'webhook-id': id, 'webhook-timestamp': timestamp, 'webhook-signature': `v1,${mac}` }
}
