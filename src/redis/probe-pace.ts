const FIRST_PAUSE_MS = 500
const MAX_PAUSE_MS = 2_000

/** Time between two probes of a server that answers: one that is full, or has become a replica, must show without a request. */
export const CHECK_EVERY_MS = 1_000

/** @param refusals probes in a row that were answered with errors @returns ms until the next one */
export function probePauseMs(refusals: number): number {
  return Math.min(MAX_PAUSE_MS, FIRST_PAUSE_MS * 2 ** Math.min(refusals, 10))
}
