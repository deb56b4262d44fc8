import { createHmac } from 'node:crypto'
import { type OnReload, reloadable } from '../../config/reloadable.ts'
import { readAuthorities } from '../../config/setting-files.ts'
import { NO_PROXIES, type ProxySettings } from '../../domain/proxy.ts'
import { ProxyError } from '../../outgoing/connect.ts'
import { OutgoingClient } from '../../outgoing/outgoing-client.ts'
import type { OperatorWebhook } from './events.ts'
import { createGuardedConnector, type Guard } from './guarded-connector.ts'
import { type DueDelivery, MAX_REST_MS, type ReceiverKind } from './rows.ts'

const MAX_RESPONSE_BYTES = 64 * 1024
const FIRST_REST_MS = 5_000
/** One text for every failure without a status: a different one for each would tell which addresses and ports are in use. */
const NO_RESPONSE = 'No response: the address is unreachable, not allowed or without a valid certificate'
/** Of an event that a workspace without a webhook does not receive any more. */
export const REMOVED = 'Not sent: the webhook was removed'

/** How events reach receivers of one kind. */
export interface Channel {
  readonly kind: ReceiverKind
  /** Receivers served at a time. */
  readonly lanes: number
  /** Events sent to a receiver at a time. */
  readonly eventsOfEach: number
  readonly timeoutMs: number
  /** How long a receiver rests after so many attempts in a row that failed. */
  restMs(failures: number): number
  /** Never rejects for what a receiver does. It follows no redirect: the signature is meant for this address. */
  send(event: SentEvent, nowMs: number): Promise<SendResult>
  stop(): Promise<void>
}

type SentEvent = Pick<DueDelivery, 'receiver' | 'id' | 'body'>

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

/**
 * To the operator's webhook, over connections that stay open. It does not rest: its events are not bounded in number, so each is
 * tried at its times and given up in the end.
 * @param onReload reports a new secret or certificate authority; URL and time-out change by restart only
 */
export function createOperatorChannel(
  { url, timeoutMs, ...secrets }: OperatorWebhook,
  proxies: ProxySettings,
  onReload: OnReload<Partial<OperatorWebhook>>,
): Channel {
  const target = new URL(url)
  const current = reloadable<Partial<OperatorWebhook>, Access>(secrets, onReload, next =>
    readAccess(next, { proxies, timeoutMs }),
  )
  return {
    kind: 'operator',
    lanes: 1,
    eventsOfEach: 16,
    timeoutMs,
    restMs: () => 0,
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

/** @throws if the secret was removed or the CA file cannot be used */
function readAccess(
  { secret, caFile }: Partial<OperatorWebhook>,
  { proxies, timeoutMs }: { readonly proxies: ProxySettings; readonly timeoutMs: number },
): Access {
  if (secret === undefined) throw new Error('console.webhook.secret: is required with console.webhook.url')
  const authorities = readAuthorities(caFile, 'console.webhook.caFile')
  const options = { proxies, connectTimeoutMs: timeoutMs, connections: 4 }
  return { secret, client: new OutgoingClient({ ...authorities, ...options }) }
}

/** For the delivery log. It holds no internal address. */
function failureReason(error: unknown, timeoutMs: number): string {
  if (error instanceof Error && error.name === 'TimeoutError') return `No response within ${timeoutMs} ms`
  const code = error instanceof Error && 'code' in error ? String(error.code) : 'unknown'
  return `Connection failed (${code})`
}

/** To webhooks of workspaces. It makes a connection for each event: workspaces share none, and each is checked when it is made. */
export function createWorkspaceChannel(
  guard: Guard,
  findWebhook: (workspaceId: string) => Promise<{ readonly url: string; readonly secret: string } | null>,
): Channel {
  const { timeoutMs } = guard
  return {
    kind: 'workspace',
    lanes: 32,
    eventsOfEach: 4,
    timeoutMs,
    restMs: workspaceRestMs,
    async send(event, nowMs) {
      const webhook = await findWebhook(event.receiver)
      if (webhook === null) return { ok: false, status: null, reason: REMOVED, cause: 'removed' }
      const receiver = { url: new URL(webhook.url), secret: webhook.secret }
      const signal = AbortSignal.timeout(timeoutMs)
      const client = new OutgoingClient({
        // The guarded connector makes the tunnels: the client itself would send plain http to the proxy, unchecked.
        proxies: NO_PROXIES,
        connector: createGuardedConnector(guard),
        connectTimeoutMs: timeoutMs,
        connections: 1,
      })
      try {
        const status = await postEvent(client, receiver, event, { nowMs, signal })
        if (isAccepted(status)) return { ok: true, status }
        return { ok: false, status, reason: `Response status ${status}`, cause: 'status' }
      } catch (error) {
        return { ok: false, status: null, reason: NO_RESPONSE, cause: describeFailure(error) }
      } finally {
        await client.stop()
      }
    },
    stop: async () => {},
  }
}

/** So that receivers that work get the lanes. */
export function workspaceRestMs(failures: number): number {
  return failures === 0 ? 0 : Math.min(FIRST_REST_MS * 2 ** Math.min(failures - 1, 10), MAX_REST_MS)
}

function describeFailure(error: unknown): string {
  if (!(error instanceof Error)) return 'unknown'
  if (error.name === 'TimeoutError') return 'timeout'
  if (error instanceof ProxyError) return error.message
  return 'code' in error ? String(error.code) : error.name
}

/** Follows no redirect. @returns the status; throws without a whole response */
async function postEvent(
  client: OutgoingClient,
  { url, secret }: { readonly url: URL; readonly secret: string },
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

function isAccepted(status: number): boolean {
  return status >= 200 && status < 300
}

/** As the Standard Webhooks specification 1.0.0 has them. @param secret base64, with or without `whsec_` */
function signatureHeaders({ id, body }: SentEvent, secret: string, sentAtMs: number) {
  const timestamp = String(Math.floor(sentAtMs / 1000))
  const key = Buffer.from(secret.replace(/^whsec_/, ''), 'base64')
  const mac = createHmac('sha256', key).update(`${id}.${timestamp}.${body}`).digest('base64')
  return { 'webhook-id': id, 'webhook-timestamp': timestamp, 'webhook-signature': `v1,${mac}` }
}
