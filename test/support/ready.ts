import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { until } from './until.ts'

/** What a test starts: it must be stopped, also where it never becomes ready. */
interface Part {
  stop(): Promise<void>
}

/**
 * Waits until a program that has just been started is ready. Where it ends before, or is not ready in time, the part is stopped,
 * with its process and its directory.
 * @throws the reason why it did not start
 */
export async function ready<Started extends Part>(
  part: Started,
  program: ChildProcess,
  isReady: () => Promise<boolean>,
  timeoutMs?: number,
): Promise<Started> {
  const name = program.spawnfile
  let failure: Error | null = null
  program.once('error', error => {
    failure = error
  })
  const check = () => {
    if (failure !== null) throw failure
    if (hasEnded(program)) throw new Error(`${name} ended before it was ready: ${endOf(program)}`)
    return isReady()
  }
  return readyOrStopped(part, () => until(`${name} is ready`, check, timeoutMs))
}

/** Stops a part that does not become ready. */
export async function readyOrStopped<Started extends Part>(
  part: Started,
  becomeReady: () => Promise<unknown>,
): Promise<Started> {
  try {
    await becomeReady()
    return part
  } catch (error) {
    await part.stop()
    throw error
  }
}

/** Ends a program, unless it has ended by itself or did not even start. */
export async function end(program: ChildProcess, signal: NodeJS.Signals = 'SIGKILL'): Promise<void> {
  if (!isRunning(program)) return
  const exited = once(program, 'exit')
  program.kill(signal)
  await exited
}

/** Also false of a program that could not be started. */
export function isRunning(program: ChildProcess): boolean {
  return program.pid !== undefined && !hasEnded(program)
}

function hasEnded({ exitCode, signalCode }: ChildProcess): boolean {
  return exitCode !== null || signalCode !== null
}

function endOf({ exitCode, signalCode }: ChildProcess): string {
  return signalCode ?? `exit code ${exitCode}`
}
