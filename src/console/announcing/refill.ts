import type { StoredKey } from '../../domain/key/key-record.ts'
import { type ControlLogger, causeOf } from '../../observability/control-logger.ts'
import type { Announcer } from './announcer.ts'

/** Records beyond this are skipped: the next lookup of the same key tries again. */
const MAX_IN_FLIGHT = 4_096

/** Writes records that a gateway had to look up to Redis, without delaying the response. */
export function createRefill(
  announcer: Announcer,
  logger: ControlLogger,
): (keys: readonly StoredKey[]) => void {
  let inFlight = 0
  return found => {
    const keys = found.slice(0, MAX_IN_FLIGHT - inFlight)
    if (announcer.state() !== 'ready' || keys.length === 0) return
    inFlight += keys.length
    void announcer.putAll(keys.map(key => ({ key, messages: [] }))).then(results => {
      inFlight -= keys.length
      const failed = results.find(result => result.status === 'rejected')
      if (failed !== undefined) logger.debug({ cause: causeOf(failed.reason) }, 'redis refill failed')
    })
  }
}
