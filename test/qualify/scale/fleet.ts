import { setTimeout as sleep } from 'node:timers/promises'
import { sql } from 'kysely'
import { PlayedGateways } from './played-gateways.ts'
import { describeTimes, observed, say } from './readings.ts'
import { ScaleWorld, type StoredKeyName, type WorldSize } from './world.ts'

const CONFIRMED_WITHIN_MS = 120_000
const POLL_MS = 250

interface Answer {
  readonly committedAt: string
  readonly gateways: { readonly known: number; readonly confirmed: number }
}

export interface FleetSize extends WorldSize {
  readonly gateways: number
  readonly idleSeconds: number
  /** Revocations one after another. */
  readonly singly: number
  readonly bursts: readonly number[]
  /** Revocations whose answer waits for confirmations. */
  readonly waiting: number
}

interface FleetFigures {
  /** Of each revocation, by the last gateway. */
  readonly confirmedAfterMs: readonly number[]
  /** Gateways that the console knew, by each answer that waited. */
  readonly known: readonly number[]
}

/** What a fleet costs the control plane while nothing changes, and when keys are revoked. */
export async function measureFleet(size: FleetSize): Promise<FleetFigures> {
  const { gateways: count, idleSeconds, singly, bursts, waiting } = size
  const world = await ScaleWorld.start(size)
  let gateways: PlayedGateways | null = null
  try {
    gateways = await observed(world, `${count} gateways start`, () => PlayedGateways.start(world, count))
    const keys = await world.activeKeys(Math.floor(size.keys / 6))
    gateways.countRequests(keys)
    const next = () => keys.shift() ?? raise('No key is left')
    await observed(world, 'nothing changes', () => sleep(idleSeconds * 1000))
    const confirmedAfterMs = await observed(world, `${singly} revocations, one after another`, async () => {
      const all: number[][] = []
      for (let at = 0; at < singly; at++) all.push(await revoke(world, [next()], count))
      return all.flat()
    })
    say(`  last confirmation            ${describeTimes(confirmedAfterMs)}`)
    for (const burst of bursts) {
      const some = Array.from({ length: burst }, next)
      const last = await observed(world, `${burst} revocations at once`, () => revoke(world, some, count))
      say(`  last confirmation            ${describeTimes(last)}`)
      confirmedAfterMs.push(...last)
    }
    const answers = await waitFor(world, next, waiting)
    return { confirmedAfterMs, known: answers.map(answer => answer.gateways.known) }
  } finally {
    await gateways?.stop()
    await world.stop()
  }
}

function raise(message: string): never {
  throw new Error(message)
}

/** @returns for each, the time from its commit until the last gateway had confirmed it */
async function revoke(
  world: ScaleWorld,
  keys: readonly StoredKeyName[],
  gateways: number,
): Promise<number[]> {
  const committed = await Promise.all(
    keys.map(async ({ id, digest }) => {
      const { committedAt } = await world.admin<Answer>('POST', `/keys/${id}/revoke`)
      return { digest, atMs: Date.parse(committedAt) }
    }),
  )
  const endMs = performance.now() + CONFIRMED_WITHIN_MS
  const digests = committed.map(({ digest }) => digest)
  for (;;) {
    await sleep(POLL_MS)
    const { rows } = await sql<{ digest: string; count: number; last: number }>`
      select digest, count(*) as count, max(at_ms) as last from confirmations
      where digest = any(${digests}) group by digest`.execute(world.database.reader)
    const lastOf = new Map(rows.filter(row => row.count === gateways).map(row => [row.digest, row.last]))
    if (lastOf.size === keys.length)
      return committed.map(({ digest, atMs }) => (lastOf.get(digest) ?? 0) - atMs)
    if (performance.now() > endMs) {
      throw new Error(`${keys.length - lastOf.size} of ${keys.length} revocations were not confirmed by all`)
    }
  }
}

async function waitFor(world: ScaleWorld, next: () => StoredKeyName, times: number): Promise<Answer[]> {
  const waits: number[] = []
  const answers = await observed(world, `${times} revocations with wait=1`, async () => {
    const all: Answer[] = []
    for (let at = 0; at < times; at++) {
      const startedMs = performance.now()
      all.push(await world.admin<Answer>('POST', `/keys/${next().id}/revoke?wait=1`))
      waits.push(performance.now() - startedMs)
    }
    return all
  })
  const complete = answers.filter(({ gateways: { known, confirmed } }) => confirmed === known)
  say(`  answered after               ${describeTimes(waits)}`)
  say(`  confirmed by all             ${complete.length} of ${times}`)
  return answers
}
