import { createHash } from 'node:crypto'
import { setTimeout } from 'node:timers/promises'
import { digestKey, importSigningSecret, mintSecret } from '../../src/domain/key/secret.ts'
import { recordKeyName } from '../../src/domain/wire.ts'
import { SIGNING_SECRET } from '../support/key-records.ts'
import { Parts } from '../support/parts.ts'
import { Patience } from '../support/patience.ts'
import type { Listening } from '../support/postern-process.ts'
import { exchange, get } from '../support/raw-client.ts'
import { untilConnected } from '../support/readiness.ts'
import type { RedisServer } from '../support/redis-server.ts'
import { KEY_SERVICE_TOKEN } from '../support/scripted-key-service.ts'
import { PlannedKeyService } from './planned-key-service.ts'
import { breachOfRecords, type Verdict } from './record-law.ts'
import { type RecordPlan, recordPlan } from './record-plans.ts'

export interface RecordFuzzReport {
  readonly sent: number
  readonly verdicts: ReadonlyMap<string, number>
  /** Keys that were looked up in batches. */
  readonly inBatches: number
  readonly breaches: readonly RecordBreach[]
}

export interface RecordBreach {
  readonly seed: number
  readonly what: string
  readonly plan: RecordPlan
}

/** More than a gateway's concurrent calls, so that some keys are looked up in batches. */
const AT_ONCE = 32
/** Timeout of the key service, short because a run often waits for it. */
const PATIENCE_MS = '250'
const UNKNOWN_FOR_MS = 3_000
const AGAIN_AFTER_MS = 50

/** A gateway between a Redis and a key service that both hold invalid data. */
export class RecordFuzzer {
  readonly #parts: Parts
  readonly #redis: RedisServer
  readonly #keyService: PlannedKeyService
  readonly #gateway: Listening

  private constructor(parts: Parts, redis: RedisServer, keyService: PlannedKeyService, gateway: Listening) {
    this.#parts = parts
    this.#redis = redis
    this.#keyService = keyService
    this.#gateway = gateway
  }

  static start(): Promise<RecordFuzzer> {
    return Parts.start(async parts => {
      const redis = await parts.redis()
      const keyService = await parts.own(await PlannedKeyService.start())
      const gateway = await parts.gateway({
        POSTERN_REDIS_URL: redis.url,
        POSTERN_REDIS_HEARTBEATS: 'false',
        POSTERN_KEY_SERVICE_URL: keyService.url,
        POSTERN_KEY_SERVICE_TOKEN: KEY_SERVICE_TOKEN,
        POSTERN_KEY_SERVICE_TIMEOUT_MS: PATIENCE_MS,
        POSTERN_UPSTREAM_URL: 'http://127.0.0.1:9',
        POSTERN_KEYS_SIGNING_SECRETS: SIGNING_SECRET.toString('base64'),
        POSTERN_USAGE_REPORT_SECONDS: '0',
        POSTERN_LOG_LEVEL: 'error',
      })
      await untilConnected(gateway)
      return new RecordFuzzer(parts, redis, keyService, gateway)
    })
  }

  async run(runs: number, firstSeed: number): Promise<RecordFuzzReport> {
    const verdicts = new Map<string, number>()
    const breaches: RecordBreach[] = []
    let seed = firstSeed
    const work = async () => {
      while (seed < firstSeed + runs) {
        const own = seed++
        const nowMs = Date.now()
        const plan = recordPlan(own, digestKey(keyNo(own)), nowMs)
        const { verdict, breach } = await this.judge(keyNo(own), plan, nowMs)
        const name = verdict.kind === 'granted' ? 'granted' : verdict.code
        verdicts.set(name, (verdicts.get(name) ?? 0) + 1)
        if (breach !== null) breaches.push({ seed: own, what: breach, plan })
      }
    }
    await Promise.all(Array.from({ length: AT_ONCE }, work))
    return { sent: runs, verdicts, inBatches: this.#keyService.inBatches, breaches }
  }

  async judge(
    key: string,
    plan: RecordPlan,
    nowMs = Date.now(),
  ): Promise<{ verdict: Verdict; breach: string | null }> {
    const digest = digestKey(key)
    this.#keyService.plans.set(digest, plan)
    if (plan.redis !== null)
      await this.#redis.admin.set(recordKeyName(digest), Buffer.from(plan.redis, 'latin1'), 'EX', 60)
    let verdict = await this.#send(key)
    // A busy machine may cause an unknown result, and then a circuit that is open for a second: it counts only if it stays.
    const patience = new Patience(UNKNOWN_FOR_MS)
    while (!patience.isOver && isUnknown(verdict) && breachOfRecords(plan, verdict, nowMs) !== null) {
      await setTimeout(AGAIN_AFTER_MS)
      verdict = await this.#send(key)
    }
    this.#keyService.plans.delete(digest)
    return { verdict, breach: breachOfRecords(plan, verdict, nowMs) }
  }

  faults(): string[] {
    const { child, log } = this.#gateway.process
    const loggedErrors = log.filter(line => Number(line['level']) >= 50).map(line => JSON.stringify(line))
    return child.exitCode === null && child.signalCode === null ? loggedErrors : ['it ended', ...loggedErrors]
  }

  async stop(): Promise<void> {
    await this.#parts.stop()
  }

  async #send(key: string): Promise<Verdict> {
    const answer = await exchange(this.#gateway.urls.gateway, get('/api/v1/auth', key))
    const json = JSON.parse(answer.body) as Record<string, unknown>
    return answer.status === 200
      ? { kind: 'granted', grant: json }
      : { kind: 'refused', code: String(json['code']) }
  }
}

/** A well-formed key that only this run uses. */
export function keyNo(seed: number): string {
  const random = createHash('sha256').update(`of run ${seed}`).digest()
  return mintSecret('wsk_', random, importSigningSecret(SIGNING_SECRET)).reveal()
}

function isUnknown(verdict: Verdict): boolean {
  return verdict.kind === 'refused' && verdict.code === 'key_store_unavailable'
}
