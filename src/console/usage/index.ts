import type { Regions } from '../announcing/index.ts'
import type { Capability, ConsoleContext } from '../platform/capability.ts'
import type { Database } from '../platform/database/database.ts'
import { bindCalls, type Call } from '../platform/http/calls.ts'
import { USAGE_CALLS, type UsageCallParts } from './api.ts'
import { limitRoutes } from './limits-page.ts'
import { type UsagePageParts, usageRoutes } from './pages.ts'
import { createLimitReader, createNearLimitsReader } from './read-limits.ts'
import { createUsageQueries, type Usage } from './read-usage.ts'
import { usageCall } from './receive-report.ts'
import { refusalRoutes } from './refusals-page.ts'
import { createFindKnown } from './reports/check-report.ts'
import { makePartitions, purgeUsage } from './reports/rows.ts'
import { type AddLimitEvents, ReportGatherer } from './reports/store-reports.ts'
import { UseWriter, type UseWriterParts } from './reports/use-writer.ts'

export { USAGE_CALLS } from './api.ts'
export { readChartRange } from './chart-range.ts'
export {
  type KeyUsage,
  keyUsage,
  lastUseWarning,
  limitsCard,
  type RecentUse,
  readKeyUsage,
  readRecentUse,
  recentUseText,
  type UnusedCounts,
} from './pages.ts'
export { type LimitsInUse, nearLimitJson } from './read-limits.ts'
export type { ReachedLimit } from './reports/limit-uses.ts'
export { createPartitions, partitionsCovering } from './reports/rows.ts'
export type { AddLimitEvents } from './reports/store-reports.ts'

/** Counts and refusals: receiving, storing and reading them. */
export interface UsageService extends Usage {
  /** For gateways. */
  readonly call: Call
  readonly capability: Capability
}

interface OpenKeys {
  readonly database: Database
  readonly regions: Regions
  /** Of the keys that requests are counted by. */
  readonly stored: UsageCallParts['keys'] & UsagePageParts['keys']
  readonly plans: UsageCallParts['plans']
  readonly search: UsagePageParts['search']
  readonly uses: UseWriterParts['repository']
}

export function createUsageService(
  context: ConsoleContext,
  { database, regions, stored: keys, plans, search, uses: lastUses }: OpenKeys,
  addLimitEvents: AddLimitEvents,
): UsageService {
  const { config, clock, metrics } = context
  const counts = config.usage.enabled
  const stores = { counts, refusals: counts && config.refusals.enabled }
  const uses = new UseWriter({ ...context, repository: lastUses })
  const gatherer = new ReportGatherer({ ...context, database, uses, addLimitEvents })
  const limits = createLimitReader({ ...context, regions })
  const nearLimits = createNearLimitsReader(database, context)
  const usage = { stores, queries: createUsageQueries(database, clock), limits, nearLimits }
  const parts = { usage, keys, plans, search, clock }
  return {
    ...usage,
    call: usageCall({ uses, gatherer, findKnown: createFindKnown(database), clock, metrics, stores }),
    capability: {
      calls: bindCalls(USAGE_CALLS, parts),
      registerPages(scope) {
        usageRoutes(scope, parts)
        refusalRoutes(scope, parts)
        limitRoutes(scope, parts)
      },
      // Makes room for what comes, too.
      async purge() {
        await makePartitions(database, clock.wallMs())
        await purgeUsage(database, clock.wallMs())
      },
      // Waits for reports that were received.
      async stop() {
        await gatherer.stop()
        await uses.stop()
      },
    },
  }
}
