import type { Capability, ConsoleContext } from '../platform/capability.ts'
import { bindCalls } from '../platform/http/calls.ts'
import { keepUp } from '../platform/jobs/timers.ts'
import { ANNOUNCING_CALLS, type KeysToSync } from './api.ts'
import type { GatewayRows } from './gateway-rows.ts'
import type { RegionRows } from './region-rows.ts'
import type { Regions } from './regions.ts'

export { type Announcer, encodeRecordOnce } from './announcer.ts'
export { ANNOUNCING_CALLS } from './api.ts'
export {
  awaitConfirmations,
  type ConfirmationReport,
  type Confirmations,
  readConfirmations,
} from './confirmations.ts'
export { CONFIRMATIONS_KEPT_MS, createGatewayRows, type GatewayRows } from './gateway-rows.ts'
export { enqueueChanges, type PendingChange, toPendingChange } from './outbox-rows.ts'
export { type CounterReadings, readCounters } from './read-counters.ts'
export { isMarkedRedis } from './redis-mark.ts'
export { createRegionRows } from './region-rows.ts'
export {
  type Announced,
  areNamed,
  combineAnnounced,
  createRegions,
  type InEachRegion,
  isAnnounced,
  type Regions,
} from './regions.ts'

const COUNT_PERIOD_MS = 5000

interface Announcing {
  readonly regionRows: RegionRows
  readonly gateways: GatewayRows
  readonly regions: Regions
  /** The keys that it is about. */
  readonly stored: KeysToSync
}

/** Changes of keys on their way to the Redis of each region. */
export function createAnnouncing(
  context: ConsoleContext,
  { regionRows, gateways, regions, stored }: Announcing,
): Capability {
  const names = regions.list.map(({ name }) => name)
  const count = () => countPendingChanges({ ...context, regionRows }, names)
  let stopCounting = () => {}
  return {
    calls: bindCalls(ANNOUNCING_CALLS, { ...context, stored, regions }),
    start() {
      regions.start()
      stopCounting = keepUp(context, { everyMs: COUNT_PERIOD_MS, work: count })
    },
    async purge() {
      await gateways.purge()
      await regionRows.purge()
    },
    stop() {
      stopCounting()
      return regions.stop()
    },
  }
}

interface CountParts extends Pick<ConsoleContext, 'metrics' | 'clock'> {
  readonly regionRows: Pick<RegionRows, 'pendingIn'>
}

/** Counts pending changes, so that a scrape waits for no database. @param regions that this console announces to */
export async function countPendingChanges(
  { regionRows, metrics, clock }: CountParts,
  regions: readonly string[],
): Promise<void> {
  let all = 0
  for (const region of regions) {
    const outbox = regionRows.pendingIn(region)
    const pending = await outbox.countPending()
    const oldestMs = await outbox.oldestPendingMs()
    metrics.regionPending.set({ region }, pending)
    const age = oldestMs === null ? 0 : Math.max(0, clock.wallMs() - oldestMs)
    metrics.regionPendingAge.set({ region }, age / 1000)
    all += pending
  }
  metrics.outboxPending.set(all)
}
