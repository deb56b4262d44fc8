import { createHmac, hash, hkdfSync, randomUUID, timingSafeEqual } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Redis } from 'ioredis'

/** What the gateway needs to know of a key. It does not contain the secret. */
export interface KeyRecord {
  readonly id: string
  readonly workspaceId: string
  readonly scopes: readonly string[]
  readonly expiresAt: string
  readonly revokedAt?: string
  /** Increases with every change. */
  readonly version: number
}

type Options = {
  token: string
  redisUrl?: string
  heartbeats?: boolean
  port?: number
  signingSecret?: Buffer
}
type Fields = readonly (string | number)[]
/** Of gateways whose settings name none. The MAC of a message covers it; the message itself leaves it out. */
const REGION = 'default'

/** Without the queue, which would publish late. Changes that failed are published again. */
const REDIS_OPTIONS = { enableOfflineQueue: false, commandTimeout: 500 }

/** A key service that replaces the console. A real one reads a database instead of a map. */
export async function startKeyService({
  token,
  redisUrl,
  heartbeats = true,
  port = 0,
  signingSecret,
}: Options) {
  const records = new Map<string, KeyRecord>()
  const unpublished = new Map<string, KeyRecord>()
  const redis = redisUrl === undefined ? null : new Redis(redisUrl, REDIS_OPTIONS)
  redis?.on('error', () => {}) // It reconnects by itself.
  /** Distinguishes this process from an earlier one, whose monotonic clock was different. */
  const sender = randomUUID()
  const messageKey = signingSecret && hkdfSync('sha256', signingSecret, '', 'postern message mac v1', 32)
  /** @param signed fields that the MAC covers, if the gateways have signing secrets */
  async function publish(message: object, signed: Fields): Promise<void> {
    const hmac = messageKey && createHmac('sha256', Buffer.from(messageKey)).update(JSON.stringify(signed))
    const mac = hmac && { mac: hmac.digest('base64url') }
    await redis?.publish('postern:keys:changed', JSON.stringify({ ...message, ...mac }))
  }

  /** A heartbeat states that every change was published, so unpublished changes come first. */
  async function publishChanges(): Promise<void> {
    for (const [digest, record] of unpublished) {
      const { version } = record
      const at = Date.now()
      await publish({ digest, version, at, sender }, ['change', REGION, sender, digest, version, at])
      if (unpublished.get(digest) === record) unpublished.delete(digest)
    }
  }
  async function publishHeartbeat(): Promise<void> {
    await publishChanges()
    const [monotonic, at] = [Math.floor(performance.now()), Date.now()]
    if (heartbeats)
      await publish({ beat: sender, monotonic, at }, ['heartbeat', REGION, sender, monotonic, at])
  }
  const timer = setInterval(() => void publishHeartbeat().catch(() => {}), 400)

  const server = createServer((request, response) => {
    const authorized = sameText(request.headers.authorization ?? '', `Bearer ${token}`)
    const digest = /^\/internal\/v1\/keys\/([0-9a-f]{64})$/.exec(request.url ?? '')?.[1] ?? ''
    const record = records.get(digest)
    if (!authorized) answer(response, 401, { code: 'unauthenticated', error: 'A valid token is required' })
    else if (digest === '') answer(response, 404, { code: 'unknown_path', error: 'There is nothing here' })
    else if (record === undefined) answer(response, 404, { code: 'not_found', error: 'There is no such key' })
    else answer(response, 200, record)
  }).listen(port, '127.0.0.1')
  await once(server, 'listening')
  return {
    port: (server.address() as AddressInfo).port,
    /** Stores the record and publishes the change; if Redis is down, it is published later. */
    async put(key: string, record: KeyRecord): Promise<void> {
      records.set(hash('sha256', key), record)
      unpublished.set(hash('sha256', key), record)
      await publishChanges().catch(() => {})
    },
    async stop(): Promise<void> {
      clearInterval(timer)
      redis?.disconnect()
      server.close().closeAllConnections()
      await once(server, 'close')
    },
  }
}

function answer(response: ServerResponse, status: number, body: object): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
}

function sameText(a: string, b: string): boolean {
  return timingSafeEqual(hash('sha256', a, 'buffer'), hash('sha256', b, 'buffer'))
}
