import type { OpenRegistry } from '../keys/open-registry.ts'
import type { ConsoleContext } from '../platform/console-context.ts'
import { bindCalls } from '../platform/http/admin-call.ts'
import { createKnownKeys } from './known-keys.ts'
import { usageRoutes } from './pages/usage-routes.ts'
import { usageCall } from './receive-usage.ts'
import { makePartitions, purgeUsage } from './retention.ts'
import { USAGE_CALLS } from './usage-calls.ts'
import { createUsageQueries } from './usage-queries.ts'
import type { UsageService } from './usage-service.ts'

export type { UsageService } from './usage-service.ts'

import { UsageWriter } from './usage-writer.ts'
import { UseWriter } from './use-writer.ts'

export function createUsageService(
  context: ConsoleContext,
  { database, repository, registry }: Pick<OpenRegistry, 'database' | 'repository' | 'registry'>,
): UsageService {
  const { config, clock, metrics } = context
  const counts = config.usage.enabled
  const stores = { counts, refusals: counts && config.refusals.enabled }
  const uses = new UseWriter({ ...context, repository })
  const writer = new UsageWriter({ ...context, database, uses })
  const knownKeys = createKnownKeys(database)
  const usage = { stores, queries: createUsageQueries(database, clock) }
  return {
    ...usage,
    call: usageCall({ uses, writer, knownKeys, clock, metrics, stores }),
    capability: {
      calls: bindCalls(USAGE_CALLS, { registry, usage }),
      registerPages: scope => usageRoutes(scope, { registry, usage }),
      // Makes room for what comes, too.
      async purge() {
        await makePartitions(database, clock.wallMs())
        await purgeUsage(database, clock.wallMs())
      },
      // Waits for reports that were received.
      async stop() {
        await writer.stop()
        await uses.stop()
      },
    },
  }
}
