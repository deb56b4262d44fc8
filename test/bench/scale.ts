import { join } from 'node:path'
import { type KeyMint, writeKeys } from './keys.ts'
import { measureOnce } from './measure.ts'
import { residentBytes } from './processor-time.ts'
import { quantile } from './statistics.ts'
import { table } from './tables.ts'
import type { BenchWorld } from './world.ts'

const ROUNDS = 5
const SECONDS = 2
const CONNECTIONS = 64

/** Keys in use, from few to very many: what each costs in time and memory. */
export async function measureScale(world: BenchWorld, counts: readonly number[]): Promise<string> {
  const sizes = []
  for (const count of counts) sizes.push(await startWith(world, world.mint, count))
  const times = sizes.map(() => [] as number[])
  for (let round = 0; round < ROUNDS; round++) {
    for (const [index, { contestant }] of sizes.entries()) {
      times[index]?.push((await measureOnce(contestant, CONNECTIONS, SECONDS)).cpuUs)
    }
  }
  const cpuUs = times.map(samples => quantile(samples, 0.5))
  const rows = sizes.map(({ count, grownBytes }, index) => [
    count.toLocaleString('en'),
    (cpuUs[index] ?? 0).toFixed(1),
    ((cpuUs[index] ?? 0) / (cpuUs[0] ?? 1)).toFixed(2),
    count >= 10_000 ? (grownBytes / count).toFixed(0) : '',
  ])
  return table(['keys in use', 'µs of processor', 'of the first', 'resident bytes a key'], rows)
}

/** A gateway that has seen each of its keys once. */
async function startWith(world: BenchWorld, mint: KeyMint, count: number) {
  const keys = await mint.mint(count)
  const server = await world.startGateway(`gateway-${count}`, {
    POSTERN_KEYS_MEMORY_MAX_ENTRIES: String(2 * count),
    // So that none is asked for again while all are measured.
    POSTERN_KEYS_MEMORY_TTL_SECONDS: '3600',
  })
  const contestant = {
    name: `${count} keys`,
    pid: server.pid,
    url: `${server.url}/api/v1/auth`,
    headers: { Authorization: `Bearer ${keys[0]}` },
    expect: { status: 200 },
    keysFile: writeKeys(join(world.directory, `keys-${count}`), keys),
  }
  // Warm code first, so that its memory is not taken for that of records.
  const { keysFile, ...oneKey } = contestant
  await measureOnce(oneKey, CONNECTIONS, 3)
  const before = residentBytes(server.pid)
  for (let asked = 0; asked < count * 1.05; ) {
    const { perSecond } = await measureOnce(
      { ...oneKey, keysFile, firstKey: Math.floor(asked) },
      CONNECTIONS,
      3,
    )
    asked += perSecond * 3
  }
  return { count, contestant, grownBytes: residentBytes(server.pid) - before }
}
