import type { ShownEntry } from '../admin/audit-responses.ts'
import type { Column } from './table.ts'
import { minuteOf, plainText } from './text.ts'

/** Audit entries as `audit list` shows them. Ids of keys are never cut: people copy them. */
export const AUDIT_COLUMNS: readonly Column<ShownEntry>[] = [
  { title: 'AT (UTC)', text: ({ at }) => minuteOf(at) },
  { title: 'ACTION', text: ({ action }) => plainText(action) },
  { title: 'KEY', text: ({ keyId }) => textOrDash(keyId) },
  { title: 'WORKSPACE', text: ({ workspaceId }) => textOrDash(workspaceId), atLeast: 10, leaves: 1 },
  { title: 'ACTOR', text: ({ actor }) => plainText(actor), atLeast: 8, leaves: 2 },
  { title: 'ENTRY', text: ({ id }) => plainText(id), wideOnly: true },
  { title: 'DETAIL', text: ({ detail }) => plainText(JSON.stringify(detail)), wideOnly: true },
]

/** An entry that is followed: its line is printed before the next entry is known, so that no table can be fitted. */
export function entryLine(entry: ShownEntry): string {
  const { at, action, keyId, workspaceId, actor } = entry
  const time = at.slice(0, 19).replace('T', ' ')
  return [time, plainText(action), textOrDash(keyId), textOrDash(workspaceId), plainText(actor)].join('  ')
}

function textOrDash(text: string | null): string {
  return text === null ? '-' : plainText(text)
}
