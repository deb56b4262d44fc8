import { setTimeout as pause } from 'node:timers/promises'
import { type Dispatcher, Pool } from 'undici'
import type { IssuedKey } from '../support/world.ts'
import type { Sample } from './history.ts'

const CONNECTIONS = 64
const TICK_MS = 10
const MAX_TICK_MS = 40
const MAX_OPEN = 1_000

/** Clients of all replicas that record each request with its response. */
export class Load {
  readonly samples: Sample[] = []
  readonly #pools: readonly Pool[]
  #rounds: Promise<void> | null = null
  #stopped = false

  constructor(gatewayUrls: readonly string[]) {
    this.#pools = gatewayUrls.map(url => new Pool(url, { connections: CONNECTIONS, pipelining: 1 }))
  }

  get replicas(): number[] {
    return [...this.#pools.keys()]
  }

  /** Sends one request and records it, also if there is no response. */
  send(key: IssuedKey, replica: number): Promise<Sample> {
    const { promise, resolve } = Promise.withResolvers<Sample>()
    const pool = this.#pools[replica]
    if (pool === undefined) throw new RangeError(`There is no replica ${replica}`)
    const headers = { host: 'gw', authorization: `Bearer ${key.secret}` }
    const seen = new Answer(answer => {
      const sample = { key: key.id, replica, ...answer }
      this.samples.push(sample)
      resolve(sample)
    })
    pool.dispatch({ method: 'GET', path: '/api/v1/auth', headers }, seen)
    return promise
  }

  async askAll(keys: readonly IssuedKey[]): Promise<Sample[]> {
    return (await Promise.all(keys.map(key => this.askEach(key)))).flat()
  }

  askEach(key: IssuedKey): Promise<Sample[]> {
    return Promise.all(this.replicas.map(replica => this.send(key, replica)))
  }

  /** Sends requests with each key to each replica in turn, at the given total rate, until `stop`. */
  keepAsking(keys: readonly IssuedKey[], perSecond: number): void {
    this.#stopped = false
    this.#rounds = this.#goRound(keys, perSecond)
  }

  async stop(): Promise<void> {
    this.#stopped = true
    await this.#rounds
  }

  async close(): Promise<void> {
    await Promise.all(this.#pools.map(pool => pool.destroy()))
  }

  /** Requests missed during a stall are not made up for: that would add load to a machine that is already busy. */
  async #goRound(keys: readonly IssuedKey[], perSecond: number): Promise<void> {
    const open = new Set<Promise<unknown>>()
    let lastMs = performance.now()
    let asked = 0
    for (let due = 0; !this.#stopped; await pause(TICK_MS)) {
      const nowMs = performance.now()
      due += (Math.min(nowMs - lastMs, MAX_TICK_MS) * perSecond) / 1000
      lastMs = nowMs
      for (; asked < due; asked++) {
        const key = keys[Math.floor(asked / this.#pools.length) % keys.length]
        if (key === undefined || open.size > MAX_OPEN) break
        const answer = this.send(key, asked % this.#pools.length)
        open.add(answer)
        void answer.then(() => open.delete(answer))
      }
    }
    await Promise.all(open)
  }
}

/** Records when the bytes are written, not when the request began to wait for a connection. */
class Answer implements Dispatcher.DispatchHandler {
  readonly #done: (answer: Omit<Sample, 'key' | 'replica'>) => void
  #sentAtMs = Date.now()
  #status = 0
  #text = ''

  constructor(done: (answer: Omit<Sample, 'key' | 'replica'>) => void) {
    this.#done = done
  }

  onRequestStart(): void {
    this.#sentAtMs = Date.now()
  }

  onResponseStart(_controller: Dispatcher.DispatchController, status: number): void {
    this.#status = status
  }

  onResponseData(_controller: Dispatcher.DispatchController, bytes: Buffer): void {
    if (this.#status !== 200) this.#text += bytes.toString()
  }

  onResponseEnd(): void {
    const code = this.#status === 200 ? '' : (JSON.parse(this.#text) as { code: string }).code
    this.#tell(this.#status, code)
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    this.#tell(0, error.message)
  }

  #tell(status: number, code: string): void {
    this.#done({ sentAtMs: this.#sentAtMs, answeredAtMs: Date.now(), status, code })
  }
}
