import type { Clock } from '../../../domain/clock.ts'
import { type ControlLogger, causeOf } from '../../../observability/control-logger.ts'
import { backoffMs, type Timers } from '../../timers.ts'
import type { Database } from './database.ts'
import { DatabaseUnreachable } from './database-unreachable.ts'

const SAY_AGAIN_MS = 30_000

/**
 * The database, as soon as it answers. A console that ended without it would be started again and again, and be slower
 * to return than the database: how long is too long is for whoever started it to say.
 * @throws what is wrong with the address or the database itself, which no waiting mends
 */
export async function untilReachable(
  open: () => Promise<Database>,
  parts: { clock: Clock; timers: Timers; logger: ControlLogger; random: () => number; onWaiting: () => void },
): Promise<Database> {
  let saidAtMs = Number.NEGATIVE_INFINITY
  for (let failures = 1; ; failures++) {
    try {
      return await open()
    } catch (error) {
      if (!(error instanceof DatabaseUnreachable)) throw error
      parts.onWaiting()
      const nowMs = parts.clock.monotonicMs()
      if (nowMs - saidAtMs >= SAY_AGAIN_MS) {
        parts.logger.warn({ cause: causeOf(error) }, 'waiting for the database')
        saidAtMs = nowMs
      }
      const { promise, resolve } = Promise.withResolvers<void>()
      parts.timers.after(backoffMs(failures, parts.random()), resolve)
      await promise
    }
  }
}
