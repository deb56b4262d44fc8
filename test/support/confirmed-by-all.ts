import type { GatewaysResponse } from './admin-response.ts'
import { measured } from './measured-again.ts'

/** Half of the second without a heartbeat after which a gateway counts as disconnected. */
export const STARVED_MS = 500

export interface Confirming<Result> {
  readonly pids: () => readonly number[]
  /** Each time to another key. */
  readonly change: () => Promise<Result>
  /** By how much the change was too late, if that is measured. */
  readonly lateByMs?: (result: Result) => number
}

/**
 * Makes a change until it was not the machine that kept a gateway from confirming it in time: one that gets no processor for
 * about a second counts as disconnected or silent.
 * @returns the response to the last change, for the caller to check
 */
export function confirmedByAll<Result extends { readonly gateways: GatewaysResponse | null }>({
  pids,
  change,
  lateByMs = () => 0,
}: Confirming<Result>): Promise<Result> {
  return measured({
    what: 'confirmed by all gateways',
    pids,
    measure: change,
    missedByMs: result => Math.max(lateByMs(result), areAll(result.gateways) ? 0 : STARVED_MS),
  })
}

function areAll(gateways: GatewaysResponse | null): boolean {
  return gateways !== null && gateways.confirmed === gateways.known
}
