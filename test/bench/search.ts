import { createKeyRepository } from '../../src/control/registry/database/kysely-key-repository.ts'
import { openDatabase } from '../../src/control/registry/database/open-database.ts'
import { decodeCursor } from '../../src/control/registry/search/key-cursor.ts'
import type { KeyQuery } from '../../src/control/registry/search/key-query.ts'
import { type KeyQueryText, parseKeyQuery } from '../../src/control/registry/search/parse-key-query.ts'
import { RARE_NAME, seedKeys } from './seed-keys.ts'

/**
 * Times lists and searches over a million keys: `node test/bench/search.ts sqlite:FILE` (or `postgres://…`), with `--seed`
 * the first time, on an empty database.
 */
const NOW_MS = Date.parse('2026-11-20T09:00:00Z')
const ROUNDS = 20
const LARGE = 'ws_large'
const SMALL = 'ws_17'

const SEARCHES: readonly (readonly [name: string, query: KeyQueryText])[] = [
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

const [url = '', option] = process.argv.slice(2)
const database = await openDatabase(url)
if (option === '--seed') {
  const population = { keys: 1_000_000, workspaces: 10_000, inLargest: 100_000, nowMs: NOW_MS }
  await seedKeys(database, population)
}
const clock = { wallMs: () => NOW_MS, monotonicMs: () => performance.now() }
const repository = createKeyRepository(database, clock, 'bench')

for (const [name, text] of SEARCHES) {
  const query = queryOf(text)
  const first = await repository.search(query)
  const pages: KeyQuery[] = [query]
  if (first.nextCursor !== null) pages.push({ ...query, after: decodeCursor(query, first.nextCursor) })
  const times = await timesOf(async round => repository.search(pages[round % pages.length] ?? query))
  report(name, times, `${first.keys.length} keys${first.nextCursor === null ? '' : ', more'}`)
}
for (const [name, query] of [
  ['workspaces', {}],
  ['workspaces from the largest on', { afterId: 'ws_l', limit: 1 }],
  ['workspaces by a part of the id', { text: '999' }],
  ['the largest workspace', { workspaceIds: [LARGE] }],
] as const) {
  const all = { workspaceIds: null, text: null, limit: 50, afterId: null, ...query }
  const { workspaces } = await repository.listWorkspaces(all)
  report(name, await timesOf(() => repository.listWorkspaces(all)), `${workspaces.length} workspaces`)
}
for (const [name, text] of [
  ['count of all', {}],
  ['count of the largest workspace', { workspaceId: LARGE }],
  ['count of active keys', { state: 'active' }],
  ['count of a rare text', { q: RARE_NAME }],
] as const) {
  const query = queryOf(text)
  const total = await repository.count(query)
  report(name, await timesOf(() => repository.count(query), 3), `${total}`)
}
await repository.close()

function queryOf(text: KeyQueryText): KeyQuery {
  const parsed = parseKeyQuery(text)
  if (!parsed.ok) throw new Error(`${parsed.field} must be ${parsed.expected}`)
  return parsed.query
}

async function timesOf(work: (round: number) => Promise<unknown>, rounds = ROUNDS): Promise<number[]> {
  const times: number[] = []
  for (let round = 0; round < rounds; round++) {
    const start = performance.now()
    await work(round)
    times.push(performance.now() - start)
  }
  return times.sort((a, b) => a - b)
}

function report(name: string, times: readonly number[], found: string): void {
  const [median = 0, slowest = 0] = [times[times.length >> 1], times.at(-1)]
  process.stdout.write(
    `${name.padEnd(50)} ${median.toFixed(1).padStart(7)} ${slowest.toFixed(1).padStart(7)} ms  ${found}\n`,
  )
}
