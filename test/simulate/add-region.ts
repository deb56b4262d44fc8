import { encodeRecord, recordKeyName } from '../../src/domain/wire.ts'
import type { Step } from './plan.ts'
import { CONSOLE_SECRETS } from './world/settings.ts'
import type { World } from './world/world.ts'

/** The consoles restart one after another with settings that name one more region. Then its gateways start. */
export function addRegion(world: World, { durationMs }: Step): void {
  world.knownRegions = world.sites.length
  const eachMs = durationMs / world.consoles.length
  world.laws.trouble(null, world.nowMs + durationMs)
  world.consoles.forEach((_, index) => {
    world.scheduler.at(world.nowMs + index * eachMs, () => world.consoles[index]?.end())
    world.scheduler.at(world.nowMs + (index + 1) * eachMs, () => world.startConsole(index))
  })
  for (let index = 0; index < world.settings.gateways; index++) {
    if (world.gateways.has(index)) continue
    world.scheduler.at(world.nowMs + durationMs, () => world.startGateway(index))
  }
}

/** The Redis of a region that is added later holds the first records of all keys, as one that belonged to the region before. */
export function fillAddedRegion(world: World): void {
  if (!world.settings.addsRegion) return
  for (const { key } of world.database.keys.values()) {
    const text = encodeRecord(key.record, key.digest, CONSOLE_SECRETS.recordKeys[0])
    world.sites.at(-1)?.primary.load(recordKeyName(key.digest), text)
  }
}
