import { type KeyQuery, type KeyQueryText, parseKeyQuery } from '../../src/console/keys/search/key-query.ts'
import { RARE_NAME } from './seed-keys.ts'

export const LARGE = 'ws_large'
const SMALL = 'ws_17'

/** Lists and searches of every kind, over the keys of `seedKeys`. */
export const SEARCHES: readonly (readonly [name: string, query: KeyQueryText])[] = [
  ...['-createdAt', 'createdAt', 'expiresAt', '-lastUsedAt', 'lastUsedAt', 'name'].flatMap(
    sort =>
      [
        [`all keys by ${sort}`, { sort }],
        [`the largest workspace by ${sort}`, { sort, workspaceId: LARGE }],
      ] as const,
  ),
  ['a small workspace', { workspaceId: SMALL }],
  ...(['active', 'retiring', 'suspended', 'expired', 'revoked'] as const).flatMap(
    state =>
      [
        [`all ${state} keys`, { state }],
        [`${state} keys of the largest workspace by name`, { state, sort: 'name', workspaceId: LARGE }],
      ] as const,
  ),
  [
    'active keys that expire within 14 days',
    { state: 'active', expiresBefore: '2026-12-04T09:00:00Z', sort: 'expiresAt' },
  ],
  ['a scope', { scope: 'workspace:read' }],
  ['an unknown scope', { scope: 'files:write' }],
  ['a frequent text', { q: 'build' }],
  ['a frequent text by name', { q: 'billing', sort: 'name' }],
  ['a rare text', { q: RARE_NAME.toUpperCase() }],
  ['a rare text in the largest workspace', { q: 'zebra', workspaceId: LARGE }],
  ['an unknown text', { q: 'no such key' }],
  ['a text of two letters', { q: 'zz' }],
  ['the start of an id', { q: 'key_01' }],
  ['keys created long ago', { createdBefore: '2026-03-01T00:00:00Z' }],
  ['keys not used since March, by name', { lastUsedBefore: '2026-03-10T00:00:00Z', sort: 'name' }],
]

export function queryOf(text: KeyQueryText): KeyQuery {
  const parsed = parseKeyQuery(text)
  if (!parsed.ok) throw new Error(`${parsed.field} must be ${parsed.expected}`)
  return parsed.query
}
