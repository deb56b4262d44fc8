import { createHash } from 'node:crypto'
import type { KeyRecord } from '../../../src/domain/key/key-record.ts'
import type { TrustLimits } from '../../../src/keys/trust.ts'
import { Laws } from '../laws.ts'
import type { Settings } from '../plan.ts'
import { type ConsoleRun, startConsole } from './console-process.ts'
import { Database } from './database.ts'
import { type GatewayRun, startGateway } from './gateway-process.ts'
import { KeyServiceNetwork } from './key-service.ts'
import { Network } from './network.ts'
import { EPOCH_MS } from './process.ts'
import { Random } from './random.ts'
import { RedisSite } from './redis-site.ts'
import { Scheduler } from './scheduler.ts'

const DIGESTS = Array.from({ length: 8 }, (_, index) =>
  createHash('sha256').update(`simulated key ${index}`).digest('hex'),
)

/** One run: everything that a schedule acts on. */
export class World {
  readonly scheduler = new Scheduler()
  readonly random: Random
  readonly network: Network
  readonly redis: RedisSite
  readonly database: Database
  readonly keyService: KeyServiceNetwork
  readonly laws: Laws
  readonly limits: TrustLimits
  readonly digests: readonly string[]
  readonly consoles: ConsoleRun[]
  readonly gateways: GatewayRun[]
  #runs = 0

  constructor(seed: number, settings: Settings) {
    const { scheduler } = this
    const random = new Random(seed)
    this.random = random
    this.network = new Network(scheduler, random)
    const parts = { scheduler, network: this.network, random }
    this.redis = new RedisSite(parts, settings.isWatched)
    this.database = new Database(parts)
    this.keyService = new KeyServiceNetwork({
      ...parts,
      consoles: () => this.consoles,
      onUnanswered: ({ name }) => this.laws.trouble(name, scheduler.nowMs),
    })
    this.digests = DIGESTS.slice(0, settings.keys)
    this.laws = new Laws(() => scheduler.nowMs)
    this.redis.onMessage = (process, text) => this.laws.received(process, text)
    this.limits = { ttlMs: settings.ttlMs, absentTtlMs: 5_000, staleMs: settings.staleMs }
    this.consoles = []
    this.gateways = []
    for (let i = 0; i < settings.consoles; i++) this.startConsole(i)
    for (let i = 0; i < settings.gateways; i++) this.startGateway(i)
  }

  get nowMs(): number {
    return this.scheduler.nowMs
  }

  startConsole(index: number): void {
    this.consoles[index] = startConsole(this, `console-${index}`, this.#runs++)
  }

  startGateway(index: number): void {
    this.gateways[index] = startGateway(this, `gateway-${index}`, this.#runs++)
  }

  newRecord(index: number): KeyRecord {
    return {
      id: `key_${index}`,
      workspaceId: 'ws_1',
      name: 'simulated',
      description: null,
      scopes: [],
      hint: '',
      createdAtMs: EPOCH_MS,
      createdBy: 'simulation',
      expiresAtMs: EPOCH_MS + 30 * 86_400_000,
      revokedAtMs: null,
      suspendedAtMs: null,
      allowedCidrs: [],
      rotatedFrom: null,
      replacedBy: null,
      version: 1,
    }
  }
}
