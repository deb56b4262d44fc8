import { setTimeout as sleep } from 'node:timers/promises'
import { sql } from 'kysely'
import type { RunningKeyStore } from '../../../src/keys/create-key-store.ts'
import { PlayedGateways } from './played-gateways.ts'
import { describeTimes, observed, say } from './readings.ts'
import { ScaleWorld, type StoredKeyName } from './world.ts'

/** Requests that a gateway serves at once; each waits for its lookup. */
const REQUESTS_AT_ONCE = 64
/** A client that got 503 asks again after about so long. */
const RETRY_MS = 250

export interface ColdStartSize {
  readonly gateways: number
  readonly regions: number
  readonly hotKeys: number
  /** Keys that each gateway is asked for. */
  readonly each: number
  /** The same keys at each gateway, for the worst case. */
  readonly same: number
  readonly statisticsLagMs?: number
}

export interface ColdStart {
  /** Lookups by the store that answered; `unknown` if none did in time. */
  readonly answers: ReadonlyMap<string, number>
  /** Rows of keys that the database read, by key that was asked for. */
  readonly rowsPerKey: number
}

/** Gateways without a record in memory, over an empty Redis and a filled one, all get requests at once. */
export async function measureColdStart(size: ColdStartSize): Promise<ColdStart[]> {
  const { gateways, hotKeys, each, same } = size
  // A fifth of the keys can be used.
  const world = await ScaleWorld.start({ ...size, keys: hotKeys * 10 })
  try {
    const hot = await world.activeKeys(hotKeys)
    const random = () => sample(hot, each)
    const one = hot.slice(0, same)
    const counts = `${gateways} gateways`
    const results: ColdStart[] = []
    await empty(world)
    results.push(
      await warmUp(world, `${counts}, ${each} of ${hotKeys} keys each, no Redis entry`, size, random),
    )
    results.push(
      await warmUp(world, `${counts}, ${each} of ${hotKeys} keys each, the same Redis`, size, random),
    )
    await empty(world)
    results.push(await warmUp(world, `${counts}, the same ${same} keys, no Redis entry`, size, () => one))
    return results
  } finally {
    await world.stop()
  }
}

const empty = ({ regions }: ScaleWorld) => Promise.all(regions.map(({ redis }) => redis.admin.flushall()))

async function warmUp(
  world: ScaleWorld,
  title: string,
  { gateways: count, each }: ColdStartSize,
  keysOf: () => readonly StoredKeyName[],
): Promise<ColdStart> {
  const gateways = await PlayedGateways.start(world, count, each)
  const asked = new Set<string>()
  const answers = new Map<string, number>()
  const tookMs: number[] = []
  const rowsBefore = await rowsRead(world)
  await observed(world, title, () =>
    Promise.all(
      gateways.stores.map(async store => {
        const startedMs = performance.now()
        const keys = keysOf()
        for (const { id } of keys) asked.add(id)
        await lookUpAll(store, keys, answers)
        tookMs.push(performance.now() - startedMs)
      }),
    ),
  )
  const rowsPerKey = ((await rowsRead(world)) - rowsBefore) / asked.size
  await gateways.stop()
  say(`  keys asked for               ${asked.size}`)
  say(`  answers                      ${[...answers].map(([name, sum]) => `${name} ${sum}`).join(', ')}`)
  say(`  rows read for each key       ${rowsPerKey.toFixed(2)}`)
  say(`  a gateway was warm after     ${describeTimes(tookMs)}`)
  return { answers, rowsPerKey }
}

/** As requests would: some at once, each repeated until it is answered. */
async function lookUpAll(
  { keyStore }: RunningKeyStore,
  keys: readonly StoredKeyName[],
  answers: Map<string, number>,
): Promise<void> {
  const left = keys.values()
  const count = (answer: string) => answers.set(answer, (answers.get(answer) ?? 0) + 1)
  const client = async () => {
    for (const { digest } of left) {
      for (;;) {
        const lookup = await keyStore.get(digest)
        count(lookup.kind === 'found' ? lookup.tier : lookup.kind)
        if (lookup.kind === 'found') break
        if (lookup.kind !== 'unknown') throw new Error(`The answer was ${lookup.kind}`)
        await sleep(RETRY_MS * (0.5 + Math.random()))
      }
    }
  }
  await Promise.all(Array.from({ length: REQUESTS_AT_ONCE }, client))
}

/** An idle connection may keep its counts for ten seconds, but not beyond its end; the console opens others. */
async function rowsRead({ database }: ScaleWorld): Promise<number> {
  await sql`select pg_terminate_backend(pid, 1000) from pg_stat_activity
    where datname = current_database() and state = 'idle' and pid <> pg_backend_pid()`.execute(
    database.reader,
  )
  const { rows } = await sql<{ read: number }>`
    select idx_tup_fetch as read from pg_stat_user_tables where relname = 'keys'`.execute(database.reader)
  return rows[0]?.read ?? 0
}

function sample<Item>(items: readonly Item[], count: number): Item[] {
  return Array.from({ length: count }, () => items[Math.floor(Math.random() * items.length)]).filter(
    item => item !== undefined,
  )
}
