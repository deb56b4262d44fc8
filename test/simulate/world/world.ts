import { createHash } from 'node:crypto'
import type { KeyRecord } from '../../../src/domain/key/key-record.ts'
import { DEFAULT_REGION } from '../../../src/domain/region.ts'
import type { TrustLimits } from '../../../src/keys/trust.ts'
import { Laws } from '../laws.ts'
import type { Settings } from '../plan.ts'
import { type ConsoleRun, startConsole } from './console-process.ts'
import { Database } from './database.ts'
import { type GatewayRun, nameOfGateway, startGateway } from './gateway-process.ts'
import { KeyServiceNetwork } from './key-service.ts'
import { Network } from './network.ts'
import { registerRegions } from './outboxes.ts'
import { EPOCH_MS } from './process.ts'
import { Random } from './random.ts'
import { RedisSite } from './redis-site.ts'
import { Scheduler } from './scheduler.ts'
import { nameOfRegion } from './settings.ts'

const DIGESTS = Array.from({ length: 8 }, (_, index) =>
  createHash('sha256').update(`simulated key ${index}`).digest('hex'),
)

/** One run: everything that a schedule acts on. */
export class World {
  readonly scheduler = new Scheduler()
  readonly random: Random
  readonly network: Network
  readonly settings: Settings
  /** The Redis of each region. */
  readonly sites: readonly RedisSite[]
  readonly database: Database
  readonly keyService: KeyServiceNetwork
  readonly laws: Laws
  readonly limits: TrustLimits
  readonly digests: readonly string[]
  readonly consoles: ConsoleRun[]
  /** By index: those of a region that is added start later. */
  readonly gateways = new Map<number, GatewayRun>()
  /** How many regions the settings of the consoles name. */
  knownRegions: number
  #runs = 0

  constructor(seed: number, settings: Settings) {
    const { scheduler } = this
    const random = new Random(seed)
    this.random = random
    this.network = new Network(scheduler, random)
    const parts = { scheduler, network: this.network, random }
    this.settings = settings
    const { distancesMs, isWatched, isQuiet } = settings
    this.network.isCalm = isQuiet
    this.sites = distancesMs.map((_, region) => new RedisSite(parts, region, isWatched))
    this.knownRegions = distancesMs.length - (settings.addsRegion ? 1 : 0)
    this.database = new Database(parts)
    this.keyService = new KeyServiceNetwork({
      ...parts,
      consoles: () => this.consoles,
      onUnanswered: ({ name }) => this.laws.trouble(name, scheduler.nowMs),
    })
    this.digests = DIGESTS.slice(0, settings.keys)
    this.laws = new Laws(() => scheduler.nowMs, settings)
    for (const site of this.sites) {
      site.onMessage = (process, text) => this.laws.received(process, text)
      const { region, servers, sentinels } = site
      for (const name of [...servers.map(server => server.name), sentinels]) this.#place(name, region)
    }
    const names = distancesMs.length === 1 ? [DEFAULT_REGION] : distancesMs.map((_, i) => nameOfRegion(i))
    for (let i = 0; i < settings.gateways; i++) this.#place(nameOfGateway(i), this.regionOf(i))
    registerRegions(this.database, names.slice(0, this.knownRegions), true)
    this.limits = { ttlMs: settings.ttlMs, absentTtlMs: 5_000, staleMs: settings.staleMs }
    this.consoles = []
    for (let i = 0; i < settings.consoles; i++) this.startConsole(i)
    for (let i = 0; i < settings.gateways; i++) if (this.regionOf(i) < this.knownRegions) this.startGateway(i)
  }

  get nowMs(): number {
    return this.scheduler.nowMs
  }

  startConsole(index: number): void {
    this.consoles[index]?.end()
    this.consoles[index] = startConsole(this, `console-${index}`, this.#runs++)
  }

  regionOf(gateway: number): number {
    return gateway % this.sites.length
  }

  startGateway(index: number): void {
    this.gateways.get(index)?.end()
    this.gateways.set(index, startGateway(this, index, this.#runs++))
  }

  #place(name: string, region: number): void {
    this.network.place(name, region, this.settings.distancesMs[region] ?? 0)
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
