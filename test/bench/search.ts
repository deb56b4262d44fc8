import { decodeCursor, type KeyQuery } from '../../src/console/keys/search/key-query.ts'
import { openDatabase } from '../support/open-database.ts'
import { createRepository } from '../support/repository.ts'
import { LARGE, queryOf, SEARCHES } from './searches.ts'
import { RARE_NAME, seedKeys } from './seed-keys.ts'

/**
 * Times lists and searches over a million keys: `node test/bench/search.ts sqlite:FILE` (or `postgres://…`), with `--seed`
 * the first time, on an empty database.
 */
const NOW_MS = Date.parse('2026-11-20T09:00:00Z')
const ROUNDS = 20
const [url = '', option] = process.argv.slice(2)
const database = await openDatabase(url)
if (option === '--seed') {
  const population = { keys: 1_000_000, workspaces: 10_000, inLargest: 100_000, nowMs: NOW_MS }
  await seedKeys(database, population)
}
const clock = { wallMs: () => NOW_MS, monotonicMs: () => performance.now() }
const repository = createRepository(database, clock, 'bench')

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
  const all = { workspaceIds: null, text: null, limit: 50, afterId: null, maxKeysCounted: null, ...query }
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
