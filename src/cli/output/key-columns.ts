import type { ShownKey } from '../admin/responses.ts'
import { expiryText, lastUseText, scopesText, stateColour } from './key-text.ts'
import type { Column } from './table.ts'
import { minuteOf, plainText } from './text.ts'

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
