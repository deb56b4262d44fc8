import { recordKeyName } from '../../src/domain/wire.ts'
import { agreementMs, type Settings } from './plan.ts'
import type { World } from './world/world.ts'

const LAW = 'everything agrees five seconds after the last fault'
/** Lookups take no longer than this. */
const LOOKUPS_MS = 1_500
const STEP_MS = 100
/** Until then, what was true before the last fault may still be acted on: the bounds of the other laws. */
const SETTLING_MS = 2_500
const SETTLING_OF_REGIONS_MS = 4_000
/** How often it is checked whether everything agrees already, so that the rest need not be run. */
const CHECK_EVERY_MS = 500

const settlingMs = ({ distancesMs }: Settings): number =>
  distancesMs.length > 1 ? SETTLING_OF_REGIONS_MS : SETTLING_MS

/** Runs from the last fault until everything agrees, at most as long as that may take. */
export async function waitForAgreement(world: World, calmAtMs: number): Promise<void> {
  const { laws, scheduler, settings } = world
  const endMs = calmAtMs + agreementMs(settings)
  await scheduler.run(calmAtMs + settlingMs(settings))
  while (laws.violation === null && scheduler.nowMs < endMs) {
    if ((await disagreement(world)) === null && (await otherDecision(world)) === null) return
    await scheduler.run(Math.min(endMs, scheduler.nowMs + CHECK_EVERY_MS))
  }
  const detail = (await disagreement(world)) ?? (await otherDecision(world))
  if (detail !== null) laws.fail(LAW, detail)
}

/** What a change waits for, a gateway that is disconnected, or an older record in Redis. */
async function disagreement(world: World): Promise<string | null> {
  const { laws, digests } = world
  for (const [region, count] of await world.waiting()) {
    if (count > 0) return `${count} changes are not announced to ${region}`
  }
  for (const gateway of world.gateways.values()) {
    if (!gateway.isConnected()) return `${gateway.process.name} is disconnected`
  }
  for (const { primary } of world.sites.slice(0, world.knownRegions)) {
    for (const digest of digests) {
      const text = primary.textOf(recordKeyName(digest))
      const version = laws.newest(digest)?.version ?? 0
      // A forged record is replaced once a gateway has looked its key up.
      if (
        text === '' ||
        text.includes('"isForged":true') ||
        text.includes(`"version":${version},`) ||
        text.includes(`"version":${version}}`)
      )
        continue
      return `${primary.name} has another version than ${version}: ${text.slice(0, 60)}`
    }
  }
  return null
}

/** Looks up every key at every gateway. @returns what is not by the newest version */
async function otherDecision(world: World): Promise<string | null> {
  const { laws, scheduler } = world
  let waiting = 0
  let other: string | null = null
  for (const gateway of world.gateways.values()) {
    for (const digest of world.digests) {
      const newest = laws.newest(digest)?.version ?? 0
      waiting++
      void Promise.resolve(gateway.chain.get(digest)).then(lookup => {
        waiting--
        const version = lookup.kind === 'found' ? lookup.grant.version : 0
        if (version === newest && lookup.kind !== 'unknown') return
        other = `${gateway.process.name}: ${digest.slice(0, 8)} version ${version}: ${lookup.kind}, not version ${newest}`
      })
    }
  }
  const untilMs = scheduler.nowMs + LOOKUPS_MS
  while (waiting > 0 && scheduler.nowMs < untilMs) await scheduler.run(scheduler.nowMs + STEP_MS)
  return waiting > 0 ? 'a lookup does not end' : other
}
