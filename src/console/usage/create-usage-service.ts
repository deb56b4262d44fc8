import type { KeyRepository } from '../keys/rows/key-repository.ts'
import type { ConsoleContext } from '../platform/console-context.ts'
import type { Database } from '../platform/database/database.ts'
import type { Call } from '../platform/http/calls.ts'
import { createKnownKeys } from './known-keys.ts'
import { usageCall } from './receive-usage.ts'
import { makePartitions, purgeUsage } from './retention.ts'
import { createUsageQueries, type UsageQueries } from './usage-queries.ts'
import { UsageWriter } from './usage-writer.ts'
import { UseWriter } from './use-writer.ts'

/** Which parts of the reports are kept: the settings `usage.enabled` and `refusals.enabled`. */
export interface StoredUsage {
  readonly counts: boolean
  readonly refusals: boolean
}

/** Counts and refusals: receiving, keeping and reading them. */
export interface UsageService {
  readonly stores: StoredUsage
  readonly queries: UsageQueries
  /** For gateways. */
  readonly call: Call
  /** Makes room for what comes, and removes what is past its retention. */
  purge(): Promise<void>
  /** Waits for reports that were received. */
  stop(): Promise<void>
}

export function createUsageService(
  context: ConsoleContext,
  { database, repository }: { readonly database: Database; readonly repository: KeyRepository },
): UsageService {
  const { config, clock, metrics } = context
  const counts = config.usage.enabled
  const stores = { counts, refusals: counts && config.refusals.enabled }
  const uses = new UseWriter({ ...context, repository })
  const writer = new UsageWriter({ ...context, database, uses })
  const knownKeys = createKnownKeys(database)
  return {
    stores,
    queries: createUsageQueries(database, clock),
    call: usageCall({ uses, writer, knownKeys, clock, metrics, stores }),
    async purge() {
      await makePartitions(database, clock.wallMs())
      await purgeUsage(database, clock.wallMs())
    },
    async stop() {
      await writer.stop()
      await uses.stop()
    },
  }
}
