import { randomBytes } from 'node:crypto'
import type { ConsoleParts } from '../control/console-context.ts'
import { createConsole } from '../control/create-console.ts'
import { systemClock } from '../domain/clock.ts'
import type { Host } from './host.ts'
import type { RunSettings } from './run-settings.ts'
import { createContext, type PlaneRun, type ProcessContext, runUntilSignal } from './run-until-signal.ts'

/** `postern console`: the control plane alone. */
export async function runConsole(host: Host, version: string, settings: RunSettings): Promise<void> {
  const context = createContext(host, version, settings, ['console'])
  await runUntilSignal(context, async () => [await startConsole(context)])
}

/**
 * The control plane: database open and up to date, not yet listening.
 * @param own where gateways learn of changes, if not over Redis; and how people sign in, if not at a provider
 */
export async function startConsole(
  context: ProcessContext,
  own: Pick<ConsoleParts, 'announcer' | 'oneTimeLink'> = {},
): Promise<PlaneRun> {
  const { config, logger, metrics, version, reloader } = context
  const made = await createConsole({
    config,
    version,
    metrics,
    logger,
    clock: systemClock,
    randomBytes,
    onReload: reloader.onReload,
    onWaiting: part => context.waitingFor.set(part, 'failed'),
    ...own,
  })
  made.start()
  const health = async () => ({ ...(await made.health()).checks })
  return { name: 'console', app: made.app, internal: made.internal, health, stop: () => made.stop() }
}
