import { onTestFinished } from 'vitest'
import { Parts } from '../support/parts.ts'
import { type Listening, runPostern } from '../support/postern-process.ts'
import { readiness, untilConnected } from '../support/readiness.ts'
import { until } from '../support/until.ts'
import type { IssuedKey } from '../support/world.ts'
import type { RegionRedis } from './region-redis.ts'
import { type Relay, Relays } from './relays.ts'

const RECOVERY_MS = 60_000
/** Processes that start at a time, on two cores. */
const STARTS_AT_ONCE = 3

/** Gateways beside their Redis, far from the console. */
export interface FarRegion<Redis extends RegionRedis = RegionRedis> {
  readonly name: string
  /** One way. */
  readonly delayMs: number
  readonly redis: Redis
  readonly toKeyService: Relay
  readonly gateways: readonly Listening[]
}

export interface RegionPlan<Redis extends RegionRedis> {
  readonly delayMs: number
  readonly redis: (relays: Relays, delayMs: number) => Promise<Redis>
}

export interface FleetPlan<Redis extends RegionRedis> {
  readonly regions: Readonly<Record<string, RegionPlan<Redis>>>
  /** In each region. */
  readonly gateways: number
  /** The last one is the key service of all gateways. */
  readonly consoles?: number
  /** An SQLite file by default. */
  readonly databaseUrl?: string
}

export interface Revocation {
  readonly askedAtMs: number
  /** When the transaction began. */
  readonly committedAtMs: number
}

/** Consoles with regions, all as processes; what crosses the distance goes through relays that delay and stall. */
export class RegionFleet<Redis extends RegionRedis = RegionRedis> {
  readonly regions: readonly FarRegion<Redis>[]
  readonly relays: Relays
  readonly #parts: Parts
  readonly #consoles: Listening[]
  readonly #environment: Readonly<Record<string, string>>

  private constructor(
    parts: Parts,
    { regions, relays }: Pick<RegionFleet<Redis>, 'regions' | 'relays'>,
    consoles: Listening[],
    environment: Readonly<Record<string, string>>,
  ) {
    this.#parts = parts
    this.regions = regions
    this.relays = relays
    this.#consoles = consoles
    this.#environment = environment
  }

  /** Stops when the running test ends. */
  static async start<Redis extends RegionRedis>(plan: FleetPlan<Redis>): Promise<RegionFleet<Redis>> {
    const parts = new Parts()
    onTestFinished(() => parts.stop())
    const upstream = await parts.upstream()
    const relays = Relays.start()
    const places = []
    for (const [name, { delayMs, redis }] of Object.entries(plan.regions)) {
      places.push({ name, delayMs, redis: await redis(relays, delayMs) })
    }
    const quiet = { ...parts.shared, POSTERN_LOG_LEVEL: 'warn' }
    const environment = {
      ...quiet,
      POSTERN_REGIONS: JSON.stringify(places.map(({ name, redis }) => ({ name, redis: redis.atConsole }))),
      POSTERN_ADMIN_TOKEN: parts.adminToken,
      POSTERN_DATABASE_URL: plan.databaseUrl ?? (await parts.sqlite()),
    }
    const consoles: Listening[] = []
    for (let count = plan.consoles ?? 1; count > 0; count--) {
      consoles.push(await parts.console(environment))
    }
    const regions: FarRegion<Redis>[] = []
    for (const place of places) {
      const toKeyService = await relays.open(String(consoles.at(-1)?.urls.internal), place.delayMs)
      const settings = {
        ...quiet,
        ...place.redis.atGateway,
        POSTERN_REGION: place.name,
        POSTERN_KEY_SERVICE_URL: `http://127.0.0.1:${toKeyService.port}`,
        POSTERN_KEY_SERVICE_TIMEOUT_MS: '3000',
        POSTERN_UPSTREAM_URL: upstream.url,
      }
      regions.push({ ...place, toKeyService, gateways: await startGateways(parts, plan.gateways, settings) })
    }
    const fleet = new RegionFleet<Redis>(parts, { regions, relays }, consoles, environment)
    await fleet.untilHealthy()
    return fleet
  }

  /** Every process that a change passes. */
  get pids(): number[] {
    const listening = [...this.#consoles, ...this.regions.flatMap(({ gateways }) => gateways)]
    const servers = this.regions.flatMap(({ redis }) => redis.pids())
    return [process.pid, this.relays.pid, ...servers, ...listening.map(each => each.process.child.pid ?? 0)]
  }

  region(name: string): FarRegion<Redis> {
    const region = this.regions.find(each => each.name === name)
    if (region === undefined) throw new RangeError(`There is no region ${name}`)
    return region
  }

  console(index = 0): Listening {
    const console = this.#consoles[index]
    if (console === undefined) throw new RangeError(`There is no console ${index}`)
    return console
  }

  async untilHealthy(): Promise<void> {
    for (const { gateways } of this.regions) {
      for (const gateway of gateways) await untilConnected(gateway, RECOVERY_MS)
    }
    for (const console of this.#consoles) {
      const isReady = async () => (await readiness(console))['announcer'] === 'ready'
      await until('the console announces to all', isReady, RECOVERY_MS)
    }
  }

  async stopConsole(index: number): Promise<void> {
    await this.console(index).process.stop('SIGKILL')
  }

  /** At the same address for gateways. */
  async startConsole(index: number, settings: Readonly<Record<string, string>> = {}): Promise<void> {
    this.#consoles[index] = await this.#parts.console({
      ...this.#environment,
      POSTERN_CONSOLE_INTERNAL_PORT: new URL(this.console(index).urls.internal).port,
      ...settings,
    })
  }

  /** Runs a command with the settings of the consoles. */
  async command(args: readonly string[], settings: Readonly<Record<string, string>>): Promise<string> {
    const { code, stdout, stderr } = await runPostern(args, { ...this.#environment, ...settings })
    if (code !== 0) throw new Error(`${args.join(' ')} ended with ${code}: ${stdout}${stderr}`)
    return stdout + stderr
  }

  async issue(count: number): Promise<IssuedKey[]> {
    const body = { name: 'k', scopes: ['workspace:read'] }
    const keys: IssuedKey[] = []
    while (keys.length < count) {
      const some = Array.from({ length: Math.min(50, count - keys.length) }, () =>
        this.#post(0, '/workspaces/ws_1/keys', body),
      )
      keys.push(...(await Promise.all(some)).map(({ key, secret }) => ({ id: key.id, secret: secret ?? '' })))
    }
    return keys
  }

  async revoke({ id }: IssuedKey, console = 0): Promise<Revocation> {
    const askedAtMs = Date.now()
    const { committedAt } = await this.#post(console, `/keys/${id}/revoke`)
    return { askedAtMs, committedAtMs: Date.parse(committedAt) }
  }

  async #post(index: number, path: string, body?: object): Promise<ChangedKey> {
    // The tests of the admin API check its form.
    return (await this.#parts.change(this.console(index), path, body)) as unknown as ChangedKey
  }
}

interface ChangedKey {
  readonly key: { readonly id: string }
  readonly secret?: string
  readonly committedAt: string
}

async function startGateways(
  parts: Parts,
  count: number,
  settings: Readonly<Record<string, string>>,
): Promise<Listening[]> {
  const gateways: Listening[] = []
  while (gateways.length < count) {
    const some = Math.min(STARTS_AT_ONCE, count - gateways.length)
    gateways.push(...(await Parts.several(some, () => parts.gateway(settings))))
  }
  return gateways
}
