import { Patience } from './patience.ts'

const DEADLINE_MS = 10_000
const FIRST_PAUSE_MS = 5
/** Asking often takes processor time from what is awaited: the pause grows to this within 300 ms. */
const LONGEST_PAUSE_MS = 50

/**
 * Calls `check` until it returns a value. A test states what it waits for, never how long.
 * @throws if nothing happens for `timeoutMs`, in which the time that a starved machine took does not count
 */
export async function until<Value>(
  what: string,
  check: () => Value | Promise<Value>,
  timeoutMs = DEADLINE_MS,
  longestPauseMs = LONGEST_PAUSE_MS,
): Promise<NonNullable<Exclude<Value, false>>> {
  const patience = new Patience(timeoutMs)
  for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(pauseMs * 1.2, longestPauseMs)) {
    const answer = await check()
    if (answer !== false && answer !== null && answer !== undefined) {
      // The remaining type once these three are excluded, which the compiler cannot derive.
      return answer as NonNullable<Exclude<Value, false>>
    }
    if (patience.isOver) throw new Error(`Deadline passed while waiting until ${what}`)
    await new Promise(resolve => setTimeout(resolve, pauseMs))
  }
}

/** Runs every callback that waits for nothing outside this process. */
export function settled(): Promise<void> {
  return new Promise(resolve => setImmediate(resolve))
}
