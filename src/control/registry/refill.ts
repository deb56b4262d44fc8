import { type ControlLogger, causeOf } from '../control-logger.ts'
import type { Announcer } from './announcer.ts'
import type { StoredKey } from './key-repository.ts'

/** What is above is dropped: the next look-up of the same key tries again. */
const MAX_IN_FLIGHT = 32

/** Writes a record that a gateway had to ask for, off the way of the answer. */
export function createRefill(announcer: Announcer, logger: ControlLogger): (key: StoredKey) => void {
  let inFlight = 0
  return key => {
    if (announcer.state() !== 'ready' || inFlight >= MAX_IN_FLIGHT) return
    inFlight++
    announcer
      .put(key)
      .catch((error: unknown) =>
        logger.debug({ cause: causeOf(error), keyId: key.record.id }, 'refill failed'),
      )
      .finally(() => {
        inFlight--
      })
  }
}
