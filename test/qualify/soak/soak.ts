import { freePort } from '../../support/free-port.ts'
import { type Holdings, InspectedProcess } from '../../support/inspected-process.ts'
import { Parts } from '../../support/parts.ts'
import type { TcpProxy } from '../../support/tcp-proxy.ts'
import { until } from '../../support/until.ts'
import { buildWorld, type World } from '../../support/world.ts'
import { type Fault, faultsOf } from './faults.ts'
import { KeyRing, STALE_SECONDS } from './key-ring.ts'
import { MixedLoad, type Totals } from './mixed-load.ts'
import { MoodyUpstream } from './moody-upstream.ts'

/** Before the first request, after the warm-up, at half-time and at the end. */
export type Stages = Readonly<Record<'fresh' | 'warm' | 'half' | 'end', Holdings>>

type Measured = Readonly<Record<'gateway' | 'console', Holdings>>

export interface SoakReport extends Totals {
  readonly revocations: number
  readonly revocationsSinceHalf: number
  readonly faults: number
  readonly upstreamRequests: number
  readonly gateway: Stages
  readonly console: Stages
  /** Log lines of gateway or console that report a defect of their own. */
  readonly loggedErrors: readonly string[]
}

/** Effects outlast a fault: a circuit breaker is still open, a channel reconnects. */
const EXCUSED_MS = 3_000
const TURN_OVER_MS = 40
/** Idle connections are closed within this time by either side. */
const QUIET_MS = 30_000

export interface SoakTimes {
  /** Load before the first memory measurement, so that code is compiled and caches are filled. */
  readonly warmUpMs: number
  readonly soakMs: number
  /** Duration of a fault, and of the time between faults. */
  readonly faultMs: number
  readonly calmMs: number
}

/** Mixed load and one fault after the other against real processes. */
export async function soak(times: SoakTimes, tell: (text: string) => void = () => {}): Promise<SoakReport> {
  const world = await SoakWorld.start()
  try {
    const fresh = await world.measure()
    await world.live(times.warmUpMs, times, tell)
    const warm = await world.measure()
    await world.live(times.soakMs / 2, times, tell)
    const half = await world.measure()
    const revocationsAtHalf = world.figures().revocations
    await world.live(times.soakMs / 2, times, tell)
    const end = await world.measure()
    return {
      ...world.totals,
      ...world.figures(),
      revocationsSinceHalf: world.figures().revocations - revocationsAtHalf,
      gateway: { fresh: fresh.gateway, warm: warm.gateway, half: half.gateway, end: end.gateway },
      console: { fresh: fresh.console, warm: warm.console, half: half.console, end: end.console },
      loggedErrors: world.loggedErrors(),
    }
  } finally {
    await world.stop()
  }
}

class SoakWorld {
  readonly totals: Totals = { sent: 0, right: 0, failed: 0, failedUnexcused: 0, cut: 0, wrong: [] }
  readonly #world: World
  readonly #upstream: MoodyUpstream
  readonly #keys: KeyRing
  readonly #faults: readonly Fault[]
  readonly #gateway: InspectedProcess
  readonly #console: InspectedProcess
  /** Between gateway and console, where connections stay open as long as the console allows. */
  readonly #toKeyService: TcpProxy
  #idle: Measured | null = null
  #excusedUntilMs = 0
  #struck = 0

  private constructor(parts: {
    world: World
    upstream: MoodyUpstream
    toKeyService: TcpProxy
    gateway: InspectedProcess
    console: InspectedProcess
  }) {
    this.#world = parts.world
    this.#upstream = parts.upstream
    this.#toKeyService = parts.toKeyService
    this.#keys = new KeyRing(parts.world)
    this.#faults = faultsOf(parts.world, parts.upstream)
    this.#gateway = parts.gateway
    this.#console = parts.console
  }

  static start(): Promise<SoakWorld> {
    return Parts.start(async parts => {
      const upstream = await parts.own(await MoodyUpstream.start())
      const [gatewayPort, consolePort, keyServicePort] = [
        await freePort(),
        await freePort(),
        await freePort(),
      ]
      const toKeyService = await parts.proxy(`http://127.0.0.1:${keyServicePort}`)
      const inspected = (port: number) => ({
        NODE_OPTIONS: `--inspect=127.0.0.1:${port}`,
        POSTERN_LOG_LEVEL: 'error',
      })
      const settings = {
        ...inspected(gatewayPort),
        POSTERN_UPSTREAM_URL: upstream.url,
        POSTERN_KEY_SERVICE_URL: `http://127.0.0.1:${toKeyService.port}`,
        POSTERN_UPSTREAM_HEADERS_TIMEOUT_MS: '500',
        POSTERN_UPSTREAM_BODY_IDLE_TIMEOUT_MS: '500',
        POSTERN_GATEWAY_HEADERS_TIMEOUT_MS: '2000',
        POSTERN_KEYS_STALE_SECONDS: String(STALE_SECONDS),
        POSTERN_KEYS_MEMORY_TTL_SECONDS: '2',
        // The cache is full after the warm-up.
        POSTERN_KEYS_MEMORY_MAX_ENTRIES: '200',
        POSTERN_USAGE_REPORT_SECONDS: '1',
      }
      const consoleSettings = {
        ...inspected(consolePort),
        POSTERN_CONSOLE_INTERNAL_PORT: String(keyServicePort),
      }
      const world = await buildWorld(parts, settings, consoleSettings)
      const inspect = async (name: 'gateway' | 'console', port: number) => {
        const attached = await InspectedProcess.attach(world[name].process.child.pid ?? 0, port)
        await parts.own({ stop: () => attached.detach() })
        return attached
      }
      const gateway = await inspect('gateway', gatewayPort)
      const console = await inspect('console', consolePort)
      return new SoakWorld({ world, upstream, toKeyService, gateway, console })
    })
  }

  /** Runs load and faults for a time. At its end no fault is active and no client sends requests. */
  async live(forMs: number, times: SoakTimes, tell: (text: string) => void): Promise<void> {
    const endMs = performance.now() + forMs
    const load = new MixedLoad(this.#world.gateway.urls.gateway, this.#keys, () => this.#isExcused())
    const turnOver = this.#turnOver(endMs)
    await this.#breakThings(endMs, times, tell)
    await turnOver
    await load.stop()
    for (const name of ['sent', 'right', 'failed', 'failedUnexcused', 'cut'] as const) {
      this.totals[name] += load.totals[name]
    }
    this.totals.wrong.push(...load.totals.wrong)
  }

  /** Waits until resources for requests are released. At the deadline, the report shows what is still held. */
  async measure(): Promise<Measured> {
    // The figures that were waited for are the ones that are checked: a moment later, the gateway reports to the console again.
    let measured = await this.#measureNow()
    this.#idle ??= measured
    const idle = this.#idle
    const isReleased = async () => {
      const isDone = (['gateway', 'console'] as const).every(
        name => measured[name].sockets <= idle[name].sockets && measured[name].timers <= idle[name].timers,
      )
      if (isDone) return true
      this.#toKeyService.cut()
      measured = await this.#measureNow()
      return false
    }
    await until('all connections are closed, and no deadline runs', isReleased, QUIET_MS).catch(() => {})
    return measured
  }

  async #measureNow(): Promise<Measured> {
    return { gateway: await this.#gateway.measure(), console: await this.#console.measure() }
  }

  figures(): Pick<SoakReport, 'revocations' | 'faults' | 'upstreamRequests'> {
    return {
      revocations: this.#keys.revocations,
      faults: this.#struck,
      upstreamRequests: this.#upstream.requests,
    }
  }

  loggedErrors(): string[] {
    return [this.#world.gateway, this.#world.console].flatMap(({ process: { log, child } }) => [
      ...log.filter(line => Number(line['level']) >= 50).map(line => JSON.stringify(line)),
      ...(child.exitCode === null ? [] : [`It ended with ${child.exitCode}`]),
    ])
  }

  async stop(): Promise<void> {
    await this.#world.stop()
  }

  #isExcused(): boolean {
    return performance.now() < this.#excusedUntilMs
  }

  async #turnOver(endMs: number): Promise<void> {
    while (performance.now() < endMs) {
      await this.#keys.turnOver()
      await pause(TURN_OVER_MS)
    }
  }

  async #breakThings(endMs: number, times: SoakTimes, tell: (text: string) => void): Promise<void> {
    while (performance.now() < endMs - times.faultMs - times.calmMs) {
      const fault = this.#faults[this.#struck++ % this.#faults.length]
      if (fault === undefined) return
      await pause(times.calmMs)
      this.#excusedUntilMs = Number.POSITIVE_INFINITY
      await fault.strike()
      await pause(times.faultMs)
      await fault.heal()
      this.#excusedUntilMs = performance.now() + EXCUSED_MS
      tell(fault.name)
    }
    await pause(Math.max(0, endMs - performance.now()))
  }
}

function pause(ms: number): Promise<void> {
  return new Promise(resolve => setTimeout(resolve, ms))
}
