import { relativeTime } from '../../domain/relative-time.ts'
import type { ShownToken } from '../admin/token-responses.ts'
import type { Colour } from './paint.ts'
import type { Column } from './table.ts'
import { minuteOf, plainText } from './text.ts'

const STATE_COLOURS = { active: 'green', expired: 'gray', revoked: 'red' } as const

/** Tokens as `tokens list` shows them. Ids are never cut: people copy them. */
export const TOKEN_COLUMNS: readonly Column<ShownToken>[] = [
  { title: 'ID', text: ({ id }) => plainText(id) },
  { title: 'HINT', text: ({ hint }) => plainText(hint) },
  { title: 'NAME', text: ({ name }) => plainText(name), atLeast: 12, leaves: 6 },
  {
    title: 'PERMISSIONS',
    text: ({ permissions }) => permissions.map(plainText).join(' '),
    atLeast: 12,
    leaves: 3,
  },
  { title: 'WORKSPACES', text: ({ workspaces }) => workspacesText(workspaces), atLeast: 10, leaves: 2 },
  { title: 'STATE', text: stateOf, colour: colourOf },
  {
    title: 'CREATED',
    text: ({ createdAt }) => minuteOf(createdAt).slice(0, 10),
    leaves: 1,
    leavesEarly: true,
  },
  { title: 'CREATED BY', text: ({ createdBy }) => plainText(createdBy), wideOnly: true },
  { title: 'EXPIRES', text: expiryText, leaves: 5 },
  { title: 'LAST USED', text: lastUseText, leaves: 4 },
]

/** Null is all. */
export function workspacesText(workspaces: readonly string[] | null): string {
  return workspaces === null ? 'all' : workspaces.map(plainText).join(' ')
}

function stateOf({ revokedAt, expiresAt }: ShownToken, nowMs: number): keyof typeof STATE_COLOURS {
  if (revokedAt !== null) return 'revoked'
  return Date.parse(expiresAt) <= nowMs ? 'expired' : 'active'
}

function colourOf(token: ShownToken, nowMs: number): Colour {
  return STATE_COLOURS[stateOf(token, nowMs)]
}

function expiryText({ expiresAt, revokedAt }: ShownToken, nowMs: number): string {
  return revokedAt === null ? relativeTime(Date.parse(expiresAt), nowMs) : '-'
}

function lastUseText({ lastUsedAt }: ShownToken, nowMs: number): string {
  return lastUsedAt === null ? 'Never used' : relativeTime(Date.parse(lastUsedAt), nowMs)
}
