import type { ShownGateways } from '../client/responses.ts'
import type { AdminSession } from '../client/session.ts'
import { minuteOf, plainText } from '../text.ts'

interface ShownProgress {
  readonly announced?: boolean
  readonly gateways?: ShownGateways | null
  readonly regions?: readonly ShownRegion[]
}

interface ShownRegion {
  readonly name: string
  readonly announced: boolean
  readonly gateways: ShownGateways | null
}

/** Of a change that is not announced to all regions. The console says the same on its page. */
export function notAnnouncedText({ regions = [] }: ShownProgress): string {
  const away = regions.filter(({ announced }) => !announced).map(({ name }) => plainText(name))
  const [where, redis] = away.length === 0 ? ['', 'Redis'] : [` to ${away.join(', ')}`, 'Redis there']
  return `Not announced${where} yet: the console cannot reach ${redis} and keeps retrying. Disconnected gateways verify each key with the console before they accept it.`
}

const NONE_KNOWN = 'No gateway has reported to the console within the last minute, so none can confirm it.'

/**
 * How far a change has come, in the words of the console's page: saved, announced, confirmed. One text on one stream, so
 * that two streams cannot say different things.
 * @param savedAt null if the change has no time of its own
 */
export function progressLines(savedAt: string | null, progress: ShownProgress): string[] {
  const { announced, gateways, regions = [] } = progress
  const how = announced === true ? 'Saved and announced' : 'Saved'
  return [
    savedAt === null ? `${how}.` : `${how} at ${minuteOf(savedAt)} UTC.`,
    ...(announced === false ? [notAnnouncedText(progress)] : []),
    ...(gateways == null ? [] : [confirmedText(gateways)]),
    ...regions.map(regionText),
    ...elsewhereText(progress),
  ]
}

function regionText({ name, announced, gateways }: ShownRegion): string {
  const state = announced ? 'announced' : 'not announced yet'
  if (gateways === null) return `Region ${plainText(name)}: ${state}.`
  const { known, confirmed, verifying, silent } = gateways
  const parts = [
    state,
    `confirmed by ${confirmed} of ${known}`,
    ...(verifying > 0 ? [`${verifying} disconnected`] : []),
    ...(silent.length > 0 ? [`${silent.length} without confirmation`] : []),
  ]
  return `Region ${plainText(name)}: ${parts.join(', ')}.`
}

/** Gateways whose setting `region` is none of the console's: they count in no region. */
function elsewhereText({ gateways, regions = [] }: ShownProgress): string[] {
  if (gateways == null || regions.length === 0) return []
  const inRegions = regions.reduce((sum, region) => sum + (region.gateways?.known ?? 0), 0)
  const count = gateways.known - inRegions
  if (count <= 0) return []
  const named = count === 1 ? '1 gateway names' : `${count} gateways name`
  return [`${named} none of these regions: set region there as the console does.`]
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

/**
 * Prints what happened and how far it has come. A program gets the response, and on standard error only that the change is
 * not announced.
 * @param response for `--json`
 */
export function printOutcome(
  { host, json }: AdminSession,
  response: string,
  progress: ShownProgress,
  lines: readonly string[],
): void {
  host.write(`${json ? response : lines.join('\n')}\n`)
  if (json && progress.announced === false) host.complain(`${notAnnouncedText(progress)}\n`)
}
