import { randomBytes } from 'node:crypto'
import { type Console, type ConsoleParts, createConsole } from '../console/app.ts'
import { systemClock } from '../domain/clock.ts'
import type { Host } from './host.ts'
import type { RunSettings } from './reloader.ts'
import { createContext, type PlaneRun, type ProcessContext, runUntilSignal } from './run-until-signal.ts'

/** `postern console`: the control plane alone. */
export async function runConsole(host: Host, version: string, settings: RunSettings): Promise<void> {
  const context = createContext(host, version, settings, ['console'])
  await runUntilSignal(context, [() => startConsole(context)])
}

/**
 * Builds the control plane: the database is open and migrated, the listeners are not open yet.
 * @param overrides for the demo: an announcer that needs no Redis, a sign-in that needs no provider, and a clock
 * @param prepare runs before anything starts
 */
export async function startConsole(
  context: ProcessContext,
  overrides: Partial<Pick<ConsoleParts, 'announcer' | 'oneTimeLink' | 'clock'>> = {},
  prepare: (controlPlane: Console) => Promise<void> = async () => {},
): Promise<PlaneRun> {
  const { config, logger, metrics, version, reloader } = context
  const controlPlane = await createConsole({
    config,
    version,
    metrics,
    logger,
    clock: systemClock,
    randomBytes,
    onReload: reloader.onReload,
    onWaiting: part => context.waitingFor.set(part, 'failed'),
    ...overrides,
  })
  await prepare(controlPlane)
  controlPlane.start()
  const health = async () => ({ ...(await controlPlane.health()) })
  return {
    name: 'console',
    app: controlPlane.app,
    internal: controlPlane.internal,
    health,
    stop: () => controlPlane.stop(),
  }
}
