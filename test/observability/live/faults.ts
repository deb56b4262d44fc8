import { once } from 'node:events'
import { Pool } from 'undici'
import { get, RawClient } from '../../support/raw-client.ts'
import { json, type Script, type ScriptedRequest } from '../../support/scripted-upstream.ts'
import { until } from '../../support/until.ts'
import type { IssuedKey, World } from '../../support/world.ts'

const WORKSPACE = '/api/v1/workspaces/ws_1'
const FILES = `${WORKSPACE}/files`
export const SHARED_PATH = '/api/v1/workspaces/{workspaceId}/shared'
const OK = json(
  '{"files":[{"id":"f_1","name":"brand.pdf","bytes":184320}]}',
  'Cache-Control: max-age=1\r\nETag: "7"\r\n',
)
const answer = (status: number, body = '{"code":"x","error":"y"}') =>
  json(body).replace('200 OK', `${status} X`)
const pause = (ms: number) => new Promise(resolve => setTimeout(resolve, ms))
const anyOf = <Item>(items: readonly Item[]): Item => items[Math.floor(Math.random() * items.length)] as Item

/** Behaviours of the upstream, by name. */
export const upstreamScripts = {
  well: request => void setTimeout(() => request.send(OK), 2 + Math.random() * 8),
  failing: request => request.send(anyOf([OK, OK, answer(500), answer(503), answer(404), answer(429)])),
  breaking: request => {
    const kind = Math.random()
    if (kind < 0.3)
      cut(request, 'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n[1,')
    else if (kind < 0.5) cut(request, 'this is no HTTP\r\n\r\n')
    // Resets a connection when it is reused.
    else if (request.numberOnConnection > 0) request.socket.destroy()
    else request.send(OK)
  },
  silent: () => {},
  slow: request => void setTimeout(() => request.send(OK), 250),
  endless: request =>
    request.send('HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 9999\r\n\r\n[1,'),
  /** Sends a byte often enough for the idle timeout, for longer than a drain may take. */
  trickling: request => {
    upstreamScripts.endless(request)
    const sending = setInterval(() => request.send(' '), 100)
    request.socket.once('close', () => clearInterval(sending))
  },
} satisfies Record<string, Script>

function cut(request: ScriptedRequest, bytes: string): void {
  request.send(bytes)
  request.socket.end()
}

/** Client traffic: mostly valid requests, and every kind of mistake. */
export class Clients {
  readonly #world: World
  readonly #pool: Pool
  readonly #running: Promise<void>[] = []
  #going = true
  keys: IssuedKey[] = []
  revoked: IssuedKey[] = []
  answers = 0

  constructor(world: World) {
    this.#world = world
    this.#pool = new Pool(world.gateway.urls.gateway, { connections: 64 })
  }

  /** @param pauseMs pause between the requests of one client */
  begin(clients: number, pauseMs: number): void {
    for (let client = 0; client < clients; client++) this.#repeat(() => this.send(), pauseMs)
  }

  /** An operator who issues, looks up and revokes keys. */
  beginAdmin(pauseMs: number): void {
    this.#repeat(async () => {
      const key = await this.#world.issue()
      await this.#request(WORKSPACE, key.secret)
      await this.#world.admin('POST', `/keys/${key.id}/rotate`, {})
      await this.#world.revoke(key.id)
      await this.#world.revoke(key.id)
      this.revoked = [...this.revoked.slice(-20), key]
      await this.#world.admin('GET', '/workspaces/ws_1/keys')
      await this.#world.admin('GET', '/keys/key_unknown')
      await this.#world.admin('POST', '/workspaces/ws_1/keys', { name: '', scopes: [] })
    }, pauseMs)
  }

  /** Identical requests at the same time. */
  beginSharing(pauseMs: number): void {
    const target = SHARED_PATH.replace('{workspaceId}', 'ws_1')
    const send = () => this.#request(target, this.keys[0]?.secret ?? '').catch(() => {})
    this.#repeat(async () => void (await Promise.all([send(), send(), send()])), pauseMs)
  }

  async send(): Promise<void> {
    const { secret } = anyOf(this.keys)
    const kind = Math.random()
    if (kind < 0.8) return this.#request(anyOf([WORKSPACE, FILES, '/api/v1/auth']), secret)
    const mistakes = [
      () => this.#request('/api/v1/nowhere', secret),
      () => this.#request(`${FILES}?limit=many`, secret),
      () => this.#request('/api/v1/workspaces/ws_2', secret),
      () => this.#request(WORKSPACE, `${secret}x`),
      () => this.#request(WORKSPACE, null),
      () => this.#request(WORKSPACE, this.revoked.at(-1)?.secret ?? secret),
      () => this.#request(WORKSPACE, secret, 'POST'),
    ]
    return anyOf(mistakes)()
  }

  /** Sends this many requests at once. */
  async crowd(count: number): Promise<void> {
    await Promise.all(Array.from({ length: count }, () => this.send().catch(() => {})))
  }

  /** Sends this many requests at once, and disconnects before the responses. */
  async leave(count: number): Promise<void> {
    const clients = Array.from({ length: count }, () => {
      const client = new RawClient(this.#world.gateway.urls.gateway)
      client.send(get(WORKSPACE, anyOf(this.keys).secret))
      return client
    })
    await pause(150)
    for (const client of clients) client.socket.resetAndDestroy()
  }

  /** Begins a request that ends only with its connection. @returns once its response has begun */
  /** A request whose response has begun: one that is refused at that moment would not hold up the drain. */
  async beginEndless(): Promise<void> {
    await until('a response begins', async () => {
      const client = new RawClient(this.#world.gateway.urls.gateway)
      client.send(get(WORKSPACE, anyOf(this.keys).secret))
      const [head] = await once(client.socket, 'data')
      return String(head).startsWith('HTTP/1.1 200')
    })
  }

  async stop(): Promise<void> {
    this.#going = false
    await Promise.all(this.#running)
    await this.#pool.destroy()
  }

  #repeat(act: () => Promise<void>, pauseMs: number): void {
    const run = async () => {
      while (this.#going) {
        // Failures are expected here; the gateway's metrics are under test.
        await act().catch(() => {})
        await pause(pauseMs)
      }
    }
    this.#running.push(run())
  }

  async #request(path: string, key: string | null, method: 'GET' | 'POST' = 'GET'): Promise<void> {
    const { body } = await this.#pool.request({
      path,
      method,
      ...(key === null ? {} : { headers: { authorization: `Bearer ${key}` } }),
      signal: AbortSignal.timeout(3000),
    })
    this.answers++
    await body.dump()
  }
}
