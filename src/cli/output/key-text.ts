import { relativeTime } from '../../domain/relative-time.ts'
import type { ShownKey } from '../client/responses.ts'
import { restrictionFacts, textFacts } from '../options/key-fields.ts'
import { lastUseText, minuteOf, plainText } from '../text.ts'
import type { Column } from './table.ts'
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
export function keyNameOf({ id, hint, name }: ShownKey): string {
  return `${plainText(id)} (${plainText(hint)}, ${plainText(name)})`
}

/** `in 90 days`; a revoked key does not expire. */
function expiryText({ expiresAt, state }: ShownKey, nowMs: number): string {
  return state === 'revoked' ? '-' : relativeTime(Date.parse(expiresAt), nowMs)
}

/** `2027-02-18 09:00 UTC, in 90 days` */
export function expiryInFull(key: ShownKey, nowMs: number): string {
  return `${minuteOf(key.expiresAt)} UTC, ${expiryText(key, nowMs)}`
}

export function scopesText({ scopes }: ShownKey): string {
  return scopes.map(plainText).join(' ')
}

export function issuedText(key: ShownKey, nowMs: number): string {
  return `Issued ${keyNameOf(key)} for workspace ${plainText(key.workspaceId)}: ${scopesText(key)}; expires ${expiryInFull(key, nowMs)}.`
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
    text: ({ createdAt }) => minuteOf(createdAt).slice(0, 10),
    leaves: 1,
    leavesEarly: true,
  },
  { title: 'EXPIRES', text: expiryText, leaves: 6 },
  {
    title: 'EXPIRES (UTC)',
    text: key => (key.state === 'revoked' ? '-' : minuteOf(key.expiresAt)),
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
      `${minuteOf(key.createdAt)} UTC${key.createdBy === undefined ? '' : ` by ${plainText(key.createdBy)}`}`,
    ],
    ['Expires', expiryInFull(key, nowMs)],
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
  return instant == null ? null : `${minuteOf(instant)} UTC`
}
