import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import type { FastifyInstance } from 'fastify'
import type { Logger } from 'pino'
import { printConfig } from '../config/print-config.ts'
import { reloadable } from '../config/reloadable.ts'
import type { Plane } from '../config/rules.ts'
import type { Config } from '../config/schema/schema.ts'
import { systemClock, withinDeadline } from '../domain/clock.ts'
import { findRedisTopology } from '../domain/redis-address.ts'
import { describeCertificates, describeConfig, describeProcess } from '../observability/describe-process.ts'
import { createLogger, LogSink, prettyLines } from '../observability/log-sink.ts'
import { createMetrics, type Metrics, type Part } from '../observability/metrics/metrics.ts'
import { createOpsServer, type Health, type HealthDetails } from '../observability/ops-server.ts'
import { Drain } from './drain.ts'
import { EXIT, type Host } from './host.ts'
import { listen } from './listen.ts'
import { readHeapLimit } from './process-limits.ts'
import { Reloader, type RunSettings } from './reloader.ts'

/** npm forwards Ctrl-C, which the terminal also sends to the whole process group: two within this time count as one. */
const SAME_KEYSTROKE_MS = 300

/** For closing connections and the database, after the last request. */
const STOP_DEADLINE_MS = 5_000

/** How long the exit waits for the log to be written. */
const LOG_DEADLINE_MS = 1_000

/** Hex digits: enough to distinguish configurations, too few to guess settings from. */
const HASH_LENGTH = 8

/** One plane of a process, built but not yet listening. */
export interface PlaneRun {
  readonly name: 'gateway' | 'console'
  readonly app: FastifyInstance
  /** The listener of check mode, which drains with `app`; null without one. */
  readonly check?: FastifyInstance | null
  /**
   * The listener for other parts of Postern. It closes last: gateways, also one in this process, still look keys up and
   * report here while they drain.
   */
  readonly internal?: FastifyInstance
  /** The keys that verify its assertions, as a JWK set, if it signs any. */
  readonly publicKeys?: () => object
  health(): Promise<HealthDetails>
  /** True while it could serve no request correctly: it is not ready, so that a rollout stops before it replaces others. */
  isMisconfigured?(): boolean
  /** Closes connections and timers, after the last request. */
  stop(): Promise<void>
}

export interface ProcessContext {
  readonly host: Host
  readonly version: string
  readonly config: Config
  /** The logger's output. */
  readonly log: LogSink
  readonly logger: Logger
  readonly metrics: Metrics
  readonly drain: Drain
  readonly reloader: Reloader
  /** Short hash of the settings without secrets. */
  readonly settingsHash: { readonly value: string }
  /** Dependencies that the start waits for, each with its state. */
  readonly waitingFor: Map<string, string>
}

interface Running {
  /** Null until all planes listen. */
  planes: readonly PlaneRun[] | null
}

/** @param settings the settings to start with, and how to reload them */
export function createContext(
  host: Host,
  version: string,
  { config, files, load }: RunSettings,
  planes: readonly Plane[],
): ProcessContext {
  const metrics = createMetrics(listParts(planes, config), config.metrics)
  const { output } = host.streams
  // A program that reads the output gets JSON, also if the settings of a person's terminal are its own.
  const format = config.log.format === 'pretty' && output.isTTY === true ? prettyLines : undefined
  const log = new LogSink(output, metrics.logLinesDropped, format)
  const logger = createLogger(config.log.level, log)
  const revision = readRevision()
  const drain = new Drain(config.drain, logger, () => metrics.draining.set(1))
  const reloader = new Reloader({ config, files, load, logger, metrics, clock: systemClock })
  const settingsHash = reloadable(config, reloader.onReload, hashConfig)
  const identity = {
    version,
    revision,
    node: host.nodeVersion,
    planes,
    configHash: settingsHash.value,
    heapLimitBytes: readHeapLimit(host.environment),
  }
  describeProcess(metrics, identity)
  describeCertificates(metrics, planes, config)
  reloader.onReload(next => () => {
    logger.level = next.log.level
    describeConfig(metrics, planes, settingsHash.value)
    describeCertificates(metrics, planes, next)
    // Every client holds this object and reads it at each call.
    Object.assign(config.outgoing, next.outgoing)
  })
  const waitingFor = new Map<string, string>()
  return { host, version, config, log, logger, metrics, drain, reloader, settingsHash, waitingFor }
}

function hashConfig(config: Config): string {
  return createHash('sha256').update(printConfig(config)).digest('hex').slice(0, HASH_LENGTH)
}

/** Invalidations come over Redis, or from a console in the same process. */
function listParts(planes: readonly Plane[], config: Config): Part[] {
  const parts: Part[] = [...planes]
  const hasRegions = planes.includes('console') && config.regions.length > 0
  const hasRedis = hasRegions || findRedisTopology(config.redis) !== null
  if (hasRedis) parts.push('redis')
  if (planes.includes('gateway') && (hasRedis || planes.includes('console'))) parts.push('changes')
  if (planes.includes('gateway') && config.upstream.assertion.keyFiles.length > 0) parts.push('assertions')
  if (planes.includes('gateway') && config.metrics.workspaces.length > 0) parts.push('workspaces')
  return parts
}

/**
 * Listens on the ops port, starts each plane and listens with it before the next, logs the addresses in one line, and drains
 * on a signal or an uncaught exception.
 * @param starts each builds a plane; waits while a dependency that it needs is down
 * @param greet what to do before that line is logged
 * @returns the addresses, once all planes listen
 */
export async function runUntilSignal(
  context: ProcessContext,
  starts: readonly (() => Promise<PlaneRun>)[],
  greet: (addresses: Readonly<Record<string, string>>) => Promise<void> = async () => {},
): Promise<Record<string, string>> {
  const { config, logger } = context
  const running: Running = { planes: null }
  const ops = createOpsServer({
    metrics: context.metrics,
    logger,
    health: createHealth(context, running),
    publicKeys: () =>
      running.planes?.find(({ publicKeys }) => publicKeys !== undefined)?.publicKeys?.() ?? null,
  })
  const opsAddress = await listen(ops, 'ops', config.ops)
  shutDownOnSignal(context, running, ops)
  reloadWhileRunning(context)
  const planes: PlaneRun[] = []
  const addresses: Record<string, string> = {}
  for (const start of starts) {
    const plane = await start()
    planes.push(plane)
    const { name, app, check, internal } = plane
    addresses[name] = await listen(app, name, config[name])
    const { host, port = 0 } = config.gateway.check
    if (check) addresses['check'] = await listen(check, 'gateway.check', { host, port })
    if (internal === undefined) continue
    addresses['internal'] = await listen(internal, 'console.internal', config.console.internal)
  }
  addresses['ops'] = opsAddress
  running.planes = planes
  await greet(addresses)
  // Supervisors and tests wait for this line, so it is logged at every level.
  if (logger.level !== 'silent') logger.child({}, { level: 'info' }).info(addresses, 'listening')
  return addresses
}

function internalApps(planes: readonly PlaneRun[]): FastifyInstance[] {
  return planes.flatMap(({ internal }) => internal ?? [])
}

function stopAll(planes: readonly PlaneRun[]): Promise<unknown> {
  return Promise.all(planes.map(plane => plane.stop()))
}

function createHealth({ drain, waitingFor, settingsHash }: ProcessContext, running: Running): Health {
  return {
    state: () => {
      if (drain.phase !== 'serving') return 'draining'
      if (running.planes === null) return 'starting'
      return running.planes.some(plane => plane.isMisconfigured?.()) ? 'misconfigured' : 'ready'
    },
    details: async () => {
      if (running.planes === null) return Object.fromEntries(waitingFor)
      const details = await Promise.all(running.planes.map(plane => plane.health()))
      const named = details.flatMap(Object.entries<HealthDetails[string]>)
      return { ...Object.fromEntries(named), settings: settingsHash.value }
    },
  }
}

/** A closing terminal also sends SIGHUP; then the process must exit, not reload. */
function reloadWhileRunning({ host, config, reloader }: ProcessContext): void {
  reloader.start(config.reload.everySeconds * 1000)
  if (!host.atTerminal) host.onSignal('SIGHUP', () => reloader.reload({ signal: 'SIGHUP' }))
}

function shutDownOnSignal(context: ProcessContext, running: Running, ops: FastifyInstance): void {
  const { host, logger, drain, log } = context
  let exitCode: number = EXIT.ok
  let interruptedAtMs = Number.NEGATIVE_INFINITY
  host.onSignal('SIGTERM', () => shutDown('SIGTERM', EXIT.ok))
  host.onSignal('SIGINT', () => {
    const again = drain.phase !== 'serving' && performance.now() - interruptedAtMs > SAME_KEYSTROKE_MS
    interruptedAtMs = performance.now()
    if (again && host.atTerminal) host.exit(EXIT.interrupted)
    else shutDown('SIGINT', EXIT.ok)
  })
  host.onUncaughtException(error => {
    logger.fatal({ err: error }, 'uncaught exception, shutting down')
    shutDown('uncaught exception', EXIT.failure)
  })

  function shutDown(reason: string, code: number): void {
    // An exception during the shutdown sets the exit code, too.
    if (code !== EXIT.ok) exitCode = code
    if (drain.phase !== 'serving') return
    drainAndStop(context, running, ops, reason)
      .catch((error: unknown) => {
        logger.fatal({ err: error }, 'shutdown failed')
        exitCode = EXIT.failure
      })
      .then(() => log.flush(LOG_DEADLINE_MS))
      .then(() => host.exit(exitCode))
  }
}

async function drainAndStop(
  { logger, drain }: ProcessContext,
  { planes }: Running,
  ops: FastifyInstance,
  reason: string,
): Promise<void> {
  if (planes === null) {
    logger.info({ reason }, 'stopped before ready')
    return
  }
  await drain.run(
    reason,
    planes.flatMap(({ app, check }) => (check ? [app, check] : [app])),
  )
  // The internal listener closes after a gateway in this process has sent its last report.
  const withInternal = planes.filter(({ internal }) => internal !== undefined)
  const others = planes.filter(({ internal }) => internal === undefined)
  const late = () => logger.warn({ timeoutMs: STOP_DEADLINE_MS }, 'stopping parts timed out')
  await withinDeadline(stopAll(others), STOP_DEADLINE_MS, late)
  await drain.close(internalApps(planes))
  logger.info({ reason }, 'drained')
  const stopped = stopAll(withInternal).then(() => ops.close())
  await withinDeadline(stopped, STOP_DEADLINE_MS, late)
}

const FILE = new URL('../REVISION', import.meta.url)

/** The commit that the image was built from; `unknown` in a checkout. */
function readRevision(): string {
  try {
    return readFileSync(FILE, 'utf8').trim() || 'unknown'
  } catch {
    return 'unknown'
  }
}
