import { join } from 'node:path'
import { freePort } from '../support/free-port.ts'
import type { Contestant } from './contestants.ts'
import { measureInvalidations } from './invalidations.ts'
import { writeKeys } from './keys.ts'
import { LEAD_IN_SECONDS, measureOnce, type Sample } from './measure.ts'
import type { Probed } from './probe.ts'
import { residentBytes } from './processor-time.ts'
import { type Loaded, type Size, scaleTables, writeScale } from './scale-report.ts'
import type { ServerProcess } from './server-process.ts'
import { median } from './statistics.ts'
import { type BenchWorld, CHECKOUT } from './world.ts'

const ROUNDS = 9
const SECONDS = 1
/** Keys per round, however many are in use: with a million keys, wrk's own pauses would dominate the result. */
const KEYS_IN_ROUND = 140_000
/** The other half is for the lead-in, so that no key was used a moment before and is still in the processor caches. */
const FIRST_KEY_THAT_COUNTS = KEYS_IN_ROUND / 2
const PROBE = ['--expose-gc', '--import', join(CHECKOUT, 'test/bench/probe.ts')]

type Probe = (path?: string) => Promise<Probed>

/** One server that takes turns with others. */
interface Contender {
  readonly contestant: Contestant
  /** Keys file of its requests; none if they use one key. */
  readonly keys?: readonly string[]
  readonly probe: Probe
}

/** A gateway that has seen each of its keys once and gets requests with them in random order. */
export interface Filled extends Contender {
  readonly count: number
  readonly server: ServerProcess
  readonly opsPort: number
  readonly residentBytes: number
  readonly longestPauseFillingMs: number
}

/** Cost of the number of keys in use, in time and memory. @param against another checkout to measure instead of this one */
export async function measureScale(
  world: BenchWorld,
  counts: readonly number[],
  against: string | undefined,
): Promise<string> {
  const keys = await world.mint.mint(Math.max(...counts))
  const filled: Filled[] = []
  for (const count of counts) filled.push(await fill(world, keys.slice(0, count), against ?? CHECKOUT))
  const largest = filled.at(-1)
  if (largest === undefined) throw new Error('No number of keys was given')
  const floor = await startFloor(world)
  const [bareNode = [], ...rounds] = await runRounds(
    [floor, ...filled],
    join(world.directory, 'keys-of-round'),
  )
  const sizes = filled.map((size, index) => sizeOf(size, rounds[index] ?? [], rounds[0] ?? []))
  for (const other of filled.slice(0, -1)) await other.server.stop()
  const invalidations = await measureInvalidations(world, largest, keys)
  const report = { rounds: ROUNDS, seconds: SECONDS, sizes, bareNode: loadedOf(bareNode), invalidations }
  if (against === undefined) writeScale(report)
  return scaleTables(report)
}

async function fill(world: BenchWorld, keys: readonly string[], checkout: string): Promise<Filled> {
  const count = keys.length
  const [probePort, opsPort] = [await freePort(), await freePort()]
  const server = await world.startGateway(
    `gateway-${count}`,
    {
      // Some spare room, because shards do not fill evenly.
      POSTERN_KEYS_MEMORY_MAX_ENTRIES: String(Math.ceil(count * 1.1)),
      // So that no key is looked up again during the measurement.
      POSTERN_KEYS_MEMORY_TTL_SECONDS: '3600',
      POSTERN_OPS_PORT: String(opsPort),
      BENCH_PROBE_PORT: String(probePort),
    },
    { checkout, nodeFlags: PROBE },
  )
  const probe = probeAt(probePort)
  const oneKey: Contestant = {
    name: `${count} keys`,
    pid: server.pid,
    url: `${server.url}/api/v1/auth`,
    headers: { Authorization: `Bearer ${keys[0]}` },
    expect: { status: 200 },
  }
  // Warms up the code first, so that its memory does not count as that of records.
  await measureOnce(oneKey, 3)
  await probe('/collected')
  // The pause of this collection is reported with the next figures.
  await probe()
  const residentBefore = residentBytes(server.pid)
  const keysFile = writeKeys(join(world.directory, `keys-${count}`), keys)
  for (let asked = 0; asked < count * 1.05; ) {
    const firstKey = Math.floor(asked)
    const { perSecond } = await measureOnce({ ...oneKey, keysFile, firstKey }, 3)
    asked += perSecond * 3
  }
  const { longestPauseMs } = await probe()
  return {
    count,
    server,
    contestant: oneKey,
    // In a different order than that of insertion.
    keys: keys.toSorted(),
    opsPort,
    probe,
    residentBytes: residentBytes(server.pid) - residentBefore,
    longestPauseFillingMs: longestPauseMs,
  }
}

/** A server whose pauses are those of Node and the machine alone. */
async function startFloor(world: BenchWorld): Promise<Contender> {
  const port = await freePort()
  const env = { BENCH_PROBE_PORT: String(port) }
  const { pid, url } = await world.startNode('refuse-all.ts', 'bare-node', { nodeFlags: PROBE, env })
  const contestant = { name: 'bare Node 401', pid, url: `${url}/`, headers: {}, expect: { status: 401 } }
  await measureOnce(contestant, SECONDS)
  return { contestant, probe: probeAt(port) }
}

function probeAt(port: number): Probe {
  return async (path = '/') => {
    // The response of probe.ts.
    return (await (await fetch(`http://127.0.0.1:${port}${path}`)).json()) as Probed
  }
}

type Turn = Sample & Probed

/** Contenders take turns, so that disturbances affect all of them; each continues with its keys in the next round. */
async function runRounds(contenders: readonly Contender[], keysFile: string): Promise<Turn[][]> {
  const turns = contenders.map((): Turn[] => [])
  // The first round does not count, because few keys were filled in before all code was warm.
  for (let round = -1; round < ROUNDS; round++) {
    for (const [index, { contestant, probe, keys }] of contenders.entries()) {
      const asked =
        keys === undefined
          ? contestant
          : { ...contestant, keysFile: writeKeys(keysFile, keysOfRound(keys, round + 1)) }
      // Lead-in: after an idle time the code is compiled again on the measured core.
      await measureOnce(asked, LEAD_IN_SECONDS)
      await probe()
      const sample = await measureOnce({ ...asked, firstKey: FIRST_KEY_THAT_COUNTS }, SECONDS)
      const turn = { ...sample, ...(await probe()) }
      if (round >= 0) turns[index]?.push(turn)
    }
  }
  return turns
}

/** Few keys repeat within a round. */
function keysOfRound(keys: readonly string[], round: number): string[] {
  const begin = round * KEYS_IN_ROUND
  return Array.from({ length: KEYS_IN_ROUND }, (_, index) => keys[(begin + index) % keys.length] ?? '')
}

function loadedOf(turns: readonly Turn[]): Loaded {
  const middle = (figure: keyof Turn) => median(turns.map(turn => turn[figure]))
  return {
    cpuUs: middle('cpuUs'),
    perSecond: middle('perSecond'),
    p99Ms: middle('p99Us') / 1000,
    longestPauseMs: middle('longestPauseMs'),
    longestPauseOfAllMs: Math.max(...turns.map(turn => turn.longestPauseMs)),
    longestCollectionMs: middle('longestCollectionMs'),
  }
}

function sizeOf(filled: Filled, turns: readonly Turn[], first: readonly Turn[]): Size {
  const { count, residentBytes, longestPauseFillingMs } = filled
  return {
    ...loadedOf(turns),
    keys: count,
    ratioToFirst: median(turns.map(({ cpuUs }, round) => cpuUs / (first[round]?.cpuUs ?? Number.NaN))),
    longestPauseFillingMs,
    residentBytesPerKey: residentBytes / count,
  }
}
