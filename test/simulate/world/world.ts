import { createHash } from 'node:crypto'
import type { AuditedDatabase as SqliteDatabase } from '../../../src/console/platform/audit/mac.ts'
import { BLANK_FIELDS } from '../../../src/domain/key/key-fields.ts'
import type { KeyRecord } from '../../../src/domain/key/key-record.ts'
import { DEFAULT_REGION } from '../../../src/domain/region.ts'
import { recordKeyName } from '../../../src/domain/wire.ts'
import type { TrustLimits } from '../../../src/keys/tiers/trust.ts'
import { ABSENT_TTL_MS, Laws } from '../laws.ts'
import type { Settings } from '../plan.ts'
import { type ConsoleRun, startConsole } from './console-process.ts'
import { Database } from './database.ts'
import { type GatewayRun, nameOfGateway, startGateway } from './gateway-process.ts'
import { KeyServiceNetwork } from './key-service.ts'
import { Network } from './network.ts'
import { registerRegions } from './outboxes.ts'
import { EPOCH_MS, type Process } from './process.ts'
import { Random } from './random.ts'
import { RedisSite } from './redis-site.ts'
import type { DatabaseWatcher } from './repository.ts'
import { Scheduler } from './scheduler.ts'
import { nameOfRegion, SCOPES } from './settings.ts'
import { countWaiting, fillSqlite } from './sqlite-repository.ts'

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
  /** Keys that clients use: also some that do not exist yet. */
  readonly digests: string[]
  readonly watcher: DatabaseWatcher
  /** Called once a console has claimed changes. */
  onClaim: (console: Process) => void = () => {}
  readonly consoles: ConsoleRun[]
  /** By index: those of a region that is added start later. */
  readonly gateways = new Map<number, GatewayRun>()
  /** How many regions the settings of the consoles name. */
  knownRegions: number
  #runs = 0

  constructor(seed: number, settings: Settings, sqlite: SqliteDatabase | null) {
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
    this.database = new Database(parts, sqlite)
    this.keyService = new KeyServiceNetwork({
      ...parts,
      consoles: () => this.consoles,
      onUnanswered: ({ name }) => this.laws.trouble(name, scheduler.nowMs),
      onAnswered: (gateway, digests) => {
        for (const digest of digests) this.laws.verified(gateway, digest)
      },
    })
    this.digests = DIGESTS.slice(0, settings.keys)
    this.laws = new Laws(() => scheduler.nowMs, settings)
    this.watcher = {
      committed: key => {
        this.laws.committed(key)
        if (!this.digests.includes(key.digest)) this.digests.push(key.digest)
      },
      reported: report => this.laws.reported(report),
      claimed: console => this.onClaim(console),
    }
    for (const site of this.sites) {
      site.onMessage = (process, text) => this.laws.received(process, text)
      site.onRecord = (process, key) => this.laws.verified(process, key.slice(recordKeyName('').length))
      const { region, servers, sentinels } = site
      for (const name of [...servers.map(server => server.name), sentinels]) this.#place(name, region)
    }
    for (let i = 0; i < settings.gateways; i++) this.#place(nameOfGateway(i), this.regionOf(i))
    this.limits = { ttlMs: settings.ttlMs, absentTtlMs: ABSENT_TTL_MS, staleMs: settings.staleMs }
    this.consoles = []
  }

  /** Every other key exists from the start; the others are issued by operations, or never. */
  async start(): Promise<void> {
    const { settings, database } = this
    const known = this.#regionNames()
    const keys = this.digests.flatMap((digest, index) =>
      index % 2 === 1 ? [] : [{ digest, record: this.newRecord(index) }],
    )
    for (const key of keys) {
      database.store(key, key.record.createdAtMs)
      this.laws.committed(key)
    }
    registerRegions(database, known, true)
    if (database.sqlite !== null) await fillSqlite(database.sqlite, keys, known)
    for (let i = 0; i < settings.consoles; i++) this.startConsole(i)
    for (let i = 0; i < settings.gateways; i++) if (this.regionOf(i) < this.knownRegions) this.startGateway(i)
  }

  /** How many changes wait for a region, by its name. */
  async waiting(): Promise<ReadonlyMap<string, number>> {
    const { regions, sqlite } = this.database
    return sqlite === null
      ? new Map([...regions].map(([name, { rows }]) => [name, rows.size]))
      : await countWaiting(sqlite, this.#regionNames())
  }

  /** Those that the settings of the consoles name. */
  #regionNames(): string[] {
    const { distancesMs } = this.settings
    const names = distancesMs.length === 1 ? [DEFAULT_REGION] : distancesMs.map((_, i) => nameOfRegion(i))
    return names.slice(0, this.knownRegions)
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
      ...BLANK_FIELDS,
      // Before all that are issued later.
      id: `key_${String(index).padStart(26, '0')}`,
      workspaceId: index % 4 === 2 ? 'ws_2' : 'ws_1',
      name: 'simulated',
      scopes: index % 2 === 0 ? ['files:read'] : SCOPES,
      // Of two keys of a workspace: a registry refuses an equal one.
      hint: `…${index}`,
      createdAtMs: EPOCH_MS,
      createdBy: 'simulation',
      expiresAtMs: EPOCH_MS + 30 * 86_400_000,
      revokedAtMs: null,
      suspendedAtMs: null,
      rotatedFrom: null,
      replacedBy: null,
      version: 1,
    }
  }
}
