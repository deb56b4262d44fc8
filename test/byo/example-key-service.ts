import { createHmac, hash, hkdfSync, randomUUID, timingSafeEqual } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Redis } from 'ioredis'

/** All that the gateway needs to know of a key; its secret is nowhere in it. */
export interface KeyRecord {
  readonly id: string
  readonly workspaceId: string
  readonly scopes: readonly string[]
  readonly expiresAt: string
  readonly revokedAt?: string
  /** Grows with every change. */
  readonly version: number
}

type Options = { token: string; redisUrl?: string; beats?: boolean; port?: number; signingSecret?: Buffer }
type Fields = readonly (string | number)[]
/** Nothing is told late because it waited in a queue: what could not be told is told again. */
const REDIS_OPTIONS = { enableOfflineQueue: false, commandTimeout: 500 }

/** A key service in the console's place. A real one asks its database where this one asks a map. */
export async function startKeyService({ token, redisUrl, beats = true, port = 0, signingSecret }: Options) {
  const records = new Map<string, KeyRecord>()
  const untold = new Map<string, KeyRecord>()
  const redis = redisUrl === undefined ? null : new Redis(redisUrl, REDIS_OPTIONS)
  redis?.on('error', () => {}) // It connects again by itself.
  /** Tells this process from an earlier one, whose monotonic clock was another. */
  const sender = randomUUID()
  const messageKey = signingSecret && hkdfSync('sha256', signingSecret, '', 'postern message mac v1', 32)
  /** @param signed what the MAC is over, where the gateways have signing secrets */
  async function publish(message: object, signed: Fields): Promise<void> {
    const hmac = messageKey && createHmac('sha256', Buffer.from(messageKey)).update(JSON.stringify(signed))
    const mac = hmac && { mac: hmac.digest('base64url') }
    await redis?.publish('postern:keys:changed', JSON.stringify({ ...message, ...mac }))
  }

  /** What could not be told is told again, and no beat is sent before: a beat says that all is told. */
  async function tell(): Promise<void> {
    for (const [digest, record] of untold) {
      const { version } = record
      const at = Date.now()
      await publish({ digest, version, at, sender }, ['change', sender, digest, version, at])
      if (untold.get(digest) === record) untold.delete(digest)
    }
  }
  async function beat(): Promise<void> {
    await tell()
    const [monotonic, at] = [Math.floor(performance.now()), Date.now()]
    if (beats) await publish({ beat: sender, monotonic, at }, ['heartbeat', sender, monotonic, at])
  }
  const timer = setInterval(() => void beat().catch(() => {}), 400)

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
    /** Keeps the record, and then tells the gateways; where Redis is away they are told later. */
    async put(key: string, record: KeyRecord): Promise<void> {
      records.set(hash('sha256', key), record)
      untold.set(hash('sha256', key), record)
      await tell().catch(() => {})
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
