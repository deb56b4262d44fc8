import { Pool } from 'undici'
import type { Fleet, Replica } from '../support/fleet.ts'
import { slowOf } from '../support/measured-again.ts'
import { scrape, sumOf } from '../support/scrape.ts'
import { StarvationMeter } from '../support/starvation-meter.ts'
import type { IssuedKey } from '../support/world.ts'

/** One response: `200`, or the code of the denial. */
export interface Seen {
  readonly key: string
  readonly replica: number
  readonly answer: string
  /** When the request was sent, in ms since the epoch. */
  readonly sentAtMs: number
  readonly tookMs: number
  /** For how much of this the machine kept the processes from running, one after the other. */
  readonly starvedMs: number
}

/** Requests that the gateways sent to the stores. */
export interface StoreRequests {
  readonly redis: number
  readonly keyService: number
}

/** Clients that send one request after another to each gateway and record the responses. */
export class ObservedLoad {
  readonly seen: Seen[] = []
  readonly #replicas: readonly Replica[]
  readonly #pools: readonly Pool[]
  readonly #starvation: StarvationMeter
  /** Chunks sent to the key service: one per request. */
  #toKeyService = 0

  constructor({ replicas, pids }: Fleet) {
    this.#replicas = replicas
    this.#starvation = new StarvationMeter(pids)
    this.#pools = replicas.map(({ urls }) => new Pool(urls.gateway, { connections: 8, pipelining: 1 }))
    for (const { toKeyService } of replicas) {
      toKeyService.onPiece = direction => {
        if (direction === 'forth') this.#toKeyService++
      }
    }
  }

  /** For how long the machine kept one process from running within one second, at most. */
  get starvedMs(): number {
    return this.#starvation.longestMs
  }

  async send(key: IssuedKey, replica: number): Promise<Seen> {
    const pool = this.#pools[replica]
    if (pool === undefined) throw new RangeError(`There is no replica ${replica}`)
    const [sentAtMs, beganMs] = [Date.now(), performance.now()]
    const answer = await answerOf(pool, key.secret)
    const tookMs = performance.now() - beganMs
    const starvedMs = this.#starvation.waitedInAllMs(sentAtMs, sentAtMs + tookMs)
    const seen = { key: key.id, replica, answer, sentAtMs, tookMs, starvedMs }
    this.seen.push(seen)
    return seen
  }

  async askAll(keys: readonly IssuedKey[]): Promise<Seen[]> {
    const asked = this.#replicas.map(async (_, replica) => {
      const own: Seen[] = []
      for (const key of keys) own.push(await this.send(key, replica))
      return own
    })
    return (await Promise.all(asked)).flat()
  }

  /** One client with warm keys and one with cold keys at each gateway; ends when each cold key has been used once. */
  async run(warm: readonly IssuedKey[], cold: readonly IssuedKey[], pauseMs: number): Promise<Seen[]> {
    const before = this.seen.length
    await Promise.all(this.#replicas.map((_, replica) => this.#runAt(replica, warm, cold, pauseMs)))
    return this.seen.slice(before)
  }

  async #runAt(
    replica: number,
    warm: readonly IssuedKey[],
    cold: readonly IssuedKey[],
    pauseMs: number,
  ): Promise<void> {
    let going = true
    const keepAsking = async () => {
      for (let asked = 0; going; asked++) {
        const key = warm[asked % warm.length]
        if (key !== undefined) await this.send(key, replica)
        await pause(pauseMs)
      }
    }
    const asking = keepAsking()
    for (const key of cold) {
      await this.send(key, replica)
      await pause(pauseMs)
    }
    going = false
    await asking
  }

  /** Totals since the gateways started. */
  async storeRequests(): Promise<StoreRequests> {
    const scraped = await Promise.all(this.#replicas.map(({ urls }) => scrape(urls.ops)))
    const commands = scraped.map(metrics => sumOf(metrics, 'postern_redis_commands_total'))
    return { redis: commands.reduce((sum, count) => sum + count, 0), keyService: this.#toKeyService }
  }

  async stop(): Promise<void> {
    this.#starvation.stop()
    for (const { toKeyService } of this.#replicas) toKeyService.onPiece = () => {}
    await Promise.all(this.#pools.map(pool => pool.destroy()))
  }
}

/** Prints the figures of one fault. */
export function report(
  name: string,
  seen: readonly Seen[],
  more: { slowMs: number; recoveredMs: number; stores: StoreRequests },
): void {
  const failed = seen.filter(({ answer }) => answer === 'key_store_unavailable').length
  const wrong = wrongOf(seen).length
  const slow = slowOf(seen, more.slowMs).length
  process.stdout.write(
    `\n${name}: ${seen.length} requests, ${wrong} wrong, ${failed} failed, ${slow} delayed by a timeout; recovered after ${Math.round(more.recoveredMs)} ms; requests to Redis ${more.stores.redis}, to the key service ${more.stores.keyService}\n`,
  )
}

/** For valid keys: responses that call a key invalid, and missing responses. */
export function wrongOf(seen: readonly Seen[]): Seen[] {
  return seen.filter(({ answer }) => answer !== '200' && answer !== 'key_store_unavailable')
}

async function answerOf(pool: Pool, secret: string): Promise<string> {
  try {
    const headers = { host: 'gw', authorization: `Bearer ${secret}` }
    const { statusCode, body } = await pool.request({ method: 'GET', path: '/api/v1/auth', headers })
    const { code = String(statusCode) } = (await body.json()) as { code?: string }
    return code
  } catch (error) {
    return String(error)
  }
}

function pause(ms: number): Promise<void> {
  return new Promise(resolve => setTimeout(resolve, ms))
}
