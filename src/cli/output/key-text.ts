import { Option } from 'commander'
import { relativeTime } from '../../domain/form/instant.ts'
import {
  confirmedText,
  elsewhereText,
  NO_GATEWAY_KNOWN,
  regionText,
  retryText,
  verifyingText,
} from '../../domain/progress-text.ts'
import type { Host } from '../../run/host.ts'
import { lastUseText, minuteText, plainText, warn } from '../cli.ts'
import type { ShownKey, ShownProgress } from '../client/client.ts'
import type { AdminSession } from '../client/session.ts'
import { restrictionFacts, textFacts } from '../options/key-fields.ts'
import type { Column } from './list.ts'
import type { Colour, Fact, Paint } from './terminal.ts'

const STATE_COLOURS: Readonly<Record<string, Colour>> = {
  active: 'green',
  retiring: 'yellow',
  suspended: 'yellow',
  expired: 'gray',
  revoked: 'red',
}

export function stateColour({ state }: ShownKey): Colour {
  return STATE_COLOURS[state] ?? 'bold'
}

/** Identifies a key within a sentence. */
export function keyName({ id, hint, name }: ShownKey): string {
  return `${plainText(id)} (${plainText(hint)}, ${plainText(name)})`
}

export function whichKey(key: ShownKey): string {
  return `${keyName(key)} of workspace ${plainText(key.workspaceId)}`
}

/** `in 90 days`; a revoked key does not expire. */
function expiryText({ expiresAt, state }: ShownKey, nowMs: number): string {
  return state === 'revoked' ? '-' : relativeTime(Date.parse(expiresAt), nowMs)
}

/** `2027-02-18 09:00 UTC, in 90 days` */
export function expiryInFull(key: ShownKey, nowMs: number): string {
  return `${minuteText(key.expiresAt)} UTC, ${expiryText(key, nowMs)}`
}

export function scopesText({ scopes }: ShownKey): string {
  return scopes.map(plainText).join(' ')
}

export function issuedText(key: ShownKey, nowMs: number): string {
  return `Issued ${keyName(key)} for workspace ${plainText(key.workspaceId)}: ${scopesText(key)}; expires ${expiryInFull(key, nowMs)}.`
}

const ID_COLUMNS: readonly Column<ShownKey>[] = [
  { title: 'ID', text: ({ id }) => plainText(id) },
  { title: 'HINT', text: ({ hint }) => plainText(hint) },
]

const WORKSPACE: Column<ShownKey> = { title: 'WORKSPACE', text: ({ workspaceId }) => plainText(workspaceId) }

const OTHER_COLUMNS: readonly Column<ShownKey>[] = [
  { title: 'NAME', text: ({ name }) => plainText(name), atLeast: 12, leaves: 5 },
  { title: 'SCOPES', text: scopesText, atLeast: 12, leaves: 3 },
  { title: 'STATE', text: ({ state }) => plainText(state), colour: stateColour },
  {
    title: 'CREATED',
    text: ({ createdAt }) => minuteText(createdAt).slice(0, 10),
    leaves: 1,
    leavesEarly: true,
  },
  { title: 'EXPIRES', text: expiryText, leaves: 6 },
  {
    title: 'EXPIRES (UTC)',
    text: key => (key.state === 'revoked' ? '-' : minuteText(key.expiresAt)),
    leaves: 2,
    leavesEarly: true,
  },
  { title: 'LAST USED', text: lastUseText, leaves: 4 },
]

/**
 * Keys as every command lists them. Id and hint are never cut: people copy and compare them.
 * @param ofOneWorkspace the workspace is known: only `-o wide` repeats it
 */
export function keyColumns({ ofOneWorkspace }: { readonly ofOneWorkspace: boolean }): Column<ShownKey>[] {
  const workspace = ofOneWorkspace
    ? { ...WORKSPACE, wideOnly: true as const }
    : { ...WORKSPACE, atLeast: 8, leaves: 7 }
  return [...ID_COLUMNS, workspace, ...OTHER_COLUMNS]
}

/** A key in full. */
export function keyFacts(key: ShownKey, nowMs: number, paint: Paint): Fact[] {
  return [
    ['Id', plainText(key.id)],
    ['Hint', plainText(key.hint)],
    ['Workspace', plainText(key.workspaceId)],
    ['Name', plainText(key.name)],
    ...textFacts(key),
    ['Scopes', scopesText(key)],
    ['State', paint(stateColour(key), plainText(key.state))],
    ...restrictionFacts(key),
    [
      'Created',
      `${minuteText(key.createdAt)} UTC${key.createdBy === undefined ? '' : ` by ${plainText(key.createdBy)}`}`,
    ],
    ['Expires', key.state === 'revoked' ? null : expiryInFull(key, nowMs)],
    ['Suspended', instantOrNull(key.suspendedAt)],
    ['Revoked', instantOrNull(key.revokedAt)],
    ['Last used', lastUseText(key, nowMs)],
    ['Replaces', orNull(key.rotatedFrom)],
    ['Replaced by', orNull(key.replacedBy)],
    ['Version', key.version === undefined ? null : String(key.version)],
  ]
}

function orNull(text: string | null | undefined): string | null {
  return text == null ? null : plainText(text)
}

function instantOrNull(instant: string | null | undefined): string | null {
  return instant == null ? null : `${minuteText(instant)} UTC`
}

/** Of a change that is not announced to all regions. */
export function notAnnouncedText({ regions = [] }: Pick<ShownProgress, 'regions'>): string {
  const away = regions.filter(({ announced }) => !announced).map(({ name }) => plainText(name))
  return `Not announced yet. ${retryText(away)}`
}

/**
 * How far a change has come: saved, announced, confirmed. One text on one stream, so that two streams cannot say different
 * things.
 * @param savedAt null if the change has no time of its own
 */
export function progressLines(savedAt: string | null, progress: ShownProgress): string[] {
  const { announced, gateways, regions = [] } = progress
  const how = announced ? 'Saved and announced' : 'Saved'
  return [
    savedAt === null ? `${how}.` : `${how} at ${minuteText(savedAt)} UTC.`,
    ...(announced ? [] : [notAnnouncedText(progress)]),
    ...(gateways === null ? [] : [confirmationText(gateways)]),
    ...regions.map(({ name, ...region }) => `Region ${plainText(name)}: ${regionText(region)}.`),
    ...elsewhereLines(progress),
  ]
}

function elsewhereLines({ gateways, regions = [] }: ShownProgress): string[] {
  if (gateways === null || regions.length === 0) return []
  const text = elsewhereText(
    gateways,
    regions.map(region => region.gateways?.known ?? 0),
  )
  return text === null ? [] : [`${text}.`]
}

/** Which gateways have confirmed a change. */
function confirmationText(gateways: NonNullable<ShownProgress['gateways']>): string {
  if (gateways.known === 0) return NO_GATEWAY_KNOWN
  const names = gateways.silent.map(({ name }) => plainText(name)).join(', ')
  const parts = [
    confirmedText(gateways),
    verifyingText(gateways),
    names === '' ? null : `no confirmation within one second from ${names}`,
  ]
  return `${parts.filter(part => part !== null).join('; ')}.`
}

/** For a program: people read it among the other lines. */
export function warnUnlessAnnounced(host: Host, progress: ShownProgress): void {
  if (!progress.announced) warn(host, notAnnouncedText(progress), 'not_announced')
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
  if (json) warnUnlessAnnounced(host, progress)
}

export const NOTHING_CHANGED = 'Nothing was changed.'
/** Keys that a dry run names. */
export const SHOWN_AT_MOST = 10

export function dryRunOption(): Option {
  return new Option('--dry-run', 'say what would change, and change nothing')
}

/**
 * What a command would change.
 * @param facts for `--json`
 * @param title without its end
 * @param lines one for each of the first keys, or for each difference
 * @param total how many of them there are
 */
export function printDryRun(
  { host, json }: AdminSession,
  facts: object,
  title: string,
  lines: readonly string[],
  total: number,
): void {
  if (json) {
    host.write(`${JSON.stringify({ dryRun: true, ...facts })}\n`)
    return
  }
  const more = total > lines.length ? [`and ${total - lines.length} more`] : []
  const shown = [...lines, ...more].map(line => `  ${line}`)
  host.write(`${[`${title}${shown.length === 0 ? '.' : ':'}`, ...shown, NOTHING_CHANGED].join('\n')}\n`)
}
