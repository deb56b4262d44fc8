import { createHash } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type { FastifyInstance } from 'fastify'
import type { Logger } from 'pino'
import { printConfig } from '../config/print-config.ts'
import type { Plane } from '../config/rules.ts'
import type { Config } from '../config/schema.ts'
import { systemClock } from '../domain/clock.ts'
import { redisTopologyOf } from '../domain/redis-topology.ts'
import { describeCertificates, describeConfig, describeProcess } from '../observability/describe-process.ts'
import { LogSink } from '../observability/log-sink.ts'
import { createLogger } from '../observability/logger.ts'
import { createMetrics, type Metrics, type Part } from '../observability/metrics.ts'
import { createOpsServer, type Health } from '../observability/ops-server.ts'
import { Drain } from './drain.ts'
import { readHeapLimit } from './heap-limit.ts'
import { EXIT, type Host } from './host.ts'
import { listen } from './listen.ts'
import { readyCompiler } from './ready-compiler.ts'
import { Reloader } from './reloader.ts'
import { readRevision } from './revision.ts'
import type { RunSettings } from './run-settings.ts'
import { readyHeap, settleUnlessUsed } from './settle-heap.ts'

/** npm passes on the Ctrl-C that a terminal has sent to its whole group already: two within this time are one. */
const SAME_KEYSTROKE_MS = 300

/** Requests have ended by then; what is left are connections and a database to close. */
const STOP_DEADLINE_MS = 5_000

/** How long the end waits for whoever reads the log. */
const LOG_DEADLINE_MS = 1_000

/** Enough to tell two sets of settings apart, too little to guess one from. */
const HASH_LENGTH = 8

/** One plane of a process, built but not listening. */
export interface PlaneRun {
  readonly name: 'gateway' | 'console'
  readonly app: FastifyInstance
  /**
   * For other parts of Postern. It closes last: they, or a gateway in this process, still look keys up and report here
   * while they drain.
   */
  readonly internal?: FastifyInstance
  /** What is degraded, part by part. */
  health(): Promise<Readonly<Record<string, string>>>
  /** Ends connections and timers, after the last request. */
  stop(): Promise<void>
}

export interface Frame {
  readonly host: Host
  readonly version: string
  readonly config: Config
  /** Where the logger's lines go. */
  readonly log: LogSink
  readonly logger: Logger
  readonly metrics: Metrics
  readonly drain: Drain
  readonly reloader: Reloader
  /** What the start waits for, part by part, in a word. */
  readonly lacking: Map<string, string>
}

/** A process on its way. */
interface Running {
  /** Null until all of them listen. */
  planes: readonly PlaneRun[] | null
}

/** @param settings those to start with, and how they are read again */
export function createFrame(
  host: Host,
  version: string,
  { config, files, load }: RunSettings,
  planes: readonly Plane[],
): Frame {
  const metrics = createMetrics(partsOf(planes, config), config.metrics)
  const log = new LogSink(host.streams.output, metrics.logLinesDropped)
  const logger = createLogger(config.log.level, log)
  const revision = readRevision()
  const identity = {
    version,
    revision,
    node: host.nodeVersion,
    planes,
    configHash: hashOf(config),
    heapLimitBytes: readHeapLimit(host.environment),
  }
  describeProcess(metrics, identity)
  describeCertificates(metrics, planes, config)
  const drain = new Drain(config.drain, logger, () => metrics.draining.set(1))
  const reloader = new Reloader({ config, files, load, logger, metrics, clock: systemClock })
  reloader.onReload(next => () => {
    logger.level = next.log.level
    describeConfig(metrics, planes, hashOf(next))
    describeCertificates(metrics, planes, next)
  })
  return { host, version, config, log, logger, metrics, drain, reloader, lacking: new Map() }
}

function hashOf(config: Config): string {
  return createHash('sha256').update(printConfig(config)).digest('hex').slice(0, HASH_LENGTH)
}

/** Changes are heard over Redis, or from a console in the same process. */
function partsOf(planes: readonly Plane[], config: Config): Part[] {
  const parts: Part[] = [...planes]
  const hasRedis = redisTopologyOf(config.redis) !== null
  if (hasRedis) parts.push('redis')
  if (planes.includes('gateway') && (hasRedis || planes.includes('console'))) parts.push('changes')
  if (planes.includes('gateway') && config.metrics.workspaces.length > 0) parts.push('workspaces')
  return parts
}

/**
 * Listens on the ops port, starts the planes, listens with each, says so in one line, and ends on a signal or a fault
 * through the drain.
 * @param start may take as long as what a plane cannot do without is away
 * @returns the addresses taken, once all listen
 */
export async function runUntilSignal(
  frame: Frame,
  start: () => Promise<readonly PlaneRun[]>,
): Promise<Record<string, string>> {
  readyCompiler()
  const { config, logger } = frame
  const running: Running = { planes: null }
  const ops = createOpsServer({ metrics: frame.metrics, health: healthOf(frame, running) })
  const opsAddress = await listen(ops, 'ops', config.ops)
  endOnSignal(frame, running, ops)
  reloadWhileRunning(frame)
  const planes = await start()
  await readyHeap(frame.host)
  const addresses: Record<string, string> = {}
  for (const { name, app, internal } of planes) {
    addresses[name] = await listen(app, name, config[name])
    if (internal === undefined) continue
    addresses['internal'] = await listen(internal, 'console.internal', config.console.internal)
  }
  addresses['ops'] = opsAddress
  running.planes = planes
  // Whoever starts a process waits for this line, however little else they want to read.
  if (logger.level !== 'silent') logger.child({}, { level: 'info' }).info(addresses, 'listening')
  settleUnlessUsed(appsOf(planes).map(({ server }) => server)).catch((error: unknown) =>
    logger.debug({ err: error }, 'the start keeps its memory'),
  )
  return addresses
}

function appsOf(planes: readonly PlaneRun[]): FastifyInstance[] {
  return [...planes.map(({ app }) => app), ...internalAppsOf(planes)]
}

function internalAppsOf(planes: readonly PlaneRun[]): FastifyInstance[] {
  return planes.flatMap(({ internal }) => internal ?? [])
}

function stopAll(planes: readonly PlaneRun[]): Promise<unknown> {
  return Promise.all(planes.map(plane => plane.stop()))
}

function healthOf({ drain, lacking }: Frame, running: Running): Health {
  return {
    state: () => {
      if (drain.phase !== 'serving') return 'draining'
      return running.planes === null ? 'starting' : 'ready'
    },
    details: async () => {
      if (running.planes === null) return Object.fromEntries(lacking)
      const details = await Promise.all(running.planes.map(plane => plane.health()))
      return Object.fromEntries(details.flatMap(Object.entries<string>))
    },
  }
}

/** A terminal that is closed says SIGHUP as well, and means that the program should end. */
function reloadWhileRunning({ host, config, reloader }: Frame): void {
  reloader.start(config.reload.everySeconds * 1000)
  if (!host.atTerminal) host.onSignal('SIGHUP', () => reloader.reload({ signal: 'SIGHUP' }))
}

function endOnSignal(frame: Frame, running: Running, ops: FastifyInstance): void {
  const { host, logger } = frame
  let exitCode: number = EXIT.ok
  let interruptedAtMs = Number.NEGATIVE_INFINITY
  host.onSignal('SIGTERM', () => end('SIGTERM', EXIT.ok))
  host.onSignal('SIGINT', () => {
    const again = frame.drain.phase !== 'serving' && performance.now() - interruptedAtMs > SAME_KEYSTROKE_MS
    interruptedAtMs = performance.now()
    if (again && host.atTerminal) host.exit(EXIT.interrupted)
    else end('SIGINT', EXIT.ok)
  })
  host.onFault(error => {
    logger.fatal({ err: error }, 'a fault that nobody caught: ending')
    end('fault', EXIT.failure)
  })

  function end(reason: string, code: number): void {
    // A fault on the way out is one all the same.
    if (code !== EXIT.ok) exitCode = code
    if (frame.drain.phase !== 'serving') return
    leave(reason)
      .catch((error: unknown) => {
        logger.fatal({ err: error }, 'could not end in order')
        exitCode = EXIT.failure
      })
      .then(() => frame.log.flush(LOG_DEADLINE_MS))
      .then(() => host.exit(exitCode))
  }

  async function leave(reason: string): Promise<void> {
    const { planes } = running
    if (planes === null) {
      logger.info({ reason }, 'ended before it was ready')
      return
    }
    await frame.drain.run(
      reason,
      planes.map(plane => plane.app),
    )
    // A gateway in this process makes its last report to the console on the internal listener.
    const serving = planes.filter(({ internal }) => internal !== undefined)
    const others = planes.filter(({ internal }) => internal === undefined)
    await inTime(stopAll(others))
    await frame.drain.close(internalAppsOf(planes))
    logger.info({ reason }, 'drained')
    await inTime(stopAll(serving).then(() => ops.close()))
  }

  async function inTime(stopped: Promise<unknown>): Promise<void> {
    const late = sleep(STOP_DEADLINE_MS, undefined, { ref: false })
    await Promise.race([stopped, late.then(() => logger.warn('parts that did not stop in time'))])
  }
}
