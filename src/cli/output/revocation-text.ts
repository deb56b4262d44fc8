import type { ShownGateways } from '../admin/responses.ts'
import { minuteOf, plainText } from './text.ts'

export interface ShownProgress {
  readonly announced?: boolean
  readonly gateways?: ShownGateways | null
  readonly regions?: readonly ShownRegion[]
}

interface ShownRegion {
  readonly name: string
  readonly announced: boolean
  readonly gateways: ShownGateways | null
}

/** The console says the same on its page. */
export const NOT_ANNOUNCED =
  'Not announced yet: the console cannot reach Redis and keeps retrying. Disconnected gateways verify each key with the console before they accept it.'
const NONE_KNOWN = 'No gateway has reported to the console within the last minute, so none can confirm it.'

/**
 * How far a change has come, in the words of the console's page: saved, announced, confirmed. One text on one stream, so
 * that two streams cannot say different things.
 * @param savedAt null if the change has no time of its own
 */
export function progressLines(
  savedAt: string | null,
  { announced, gateways, regions = [] }: ShownProgress,
): string[] {
  const how = announced === true ? 'Saved and announced' : 'Saved'
  return [
    savedAt === null ? `${how}.` : `${how} at ${minuteOf(savedAt)} UTC.`,
    ...(announced === false ? [NOT_ANNOUNCED] : []),
    ...(gateways == null ? [] : [confirmedText(gateways)]),
    ...regions.map(regionText),
  ]
}

function regionText({ name, announced, gateways }: ShownRegion): string {
  const state = announced ? 'announced' : 'not announced yet'
  const confirmed = gateways === null ? '' : `, confirmed by ${gateways.confirmed} of ${gateways.known}`
  return `Region ${plainText(name)}: ${state}${confirmed}.`
}

/** Which gateways have confirmed a revocation. */
function confirmedText({ known, confirmed, verifying, silent }: ShownGateways): string {
  if (known === 0) return NONE_KNOWN
  const parts = [`Confirmed by ${confirmed} of ${known} ${known === 1 ? 'gateway' : 'gateways'}`]
  if (verifying > 0) {
    const checks = verifying === 1 ? 'is disconnected and checks' : 'are disconnected and check'
    parts.push(`${verifying} ${checks} each key with the console before accepting it`)
  }
  if (silent.length > 0) {
    const names = silent.map(({ name }) => plainText(name)).join(', ')
    parts.push(`no confirmation within one second from ${names}`)
  }
  return `${parts.join('; ')}.`
}
