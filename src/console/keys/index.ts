import { KEY_STATE_LABELS, type Metrics } from '../../observability/metrics/metrics.ts'
import type { Capability, ConsoleContext } from '../platform/capability.ts'
import { type AdminCall, bindCalls } from '../platform/http/calls.ts'
import { logUpkeepFailed } from '../platform/jobs/timers.ts'
import type { UsageService } from '../usage/index.ts'
import { bulkProgressRoutes } from './bulk-progress-page.ts'
import { CHANGE_CALLS } from './change-calls.ts'
import { editRoutes } from './edit-page.ts'
import { findKeyRoutes } from './find-key-page.ts'
import { TRANSFER_CALLS } from './import-export.ts'
import { issueRoutes } from './issue-page.ts'
import { keyRoutes } from './key-page.ts'
import { listRoutes } from './list-page.ts'
import type { Registry } from './operations/registry.ts'
import { planRoutes } from './plan-pages.ts'
import { READ_CALLS } from './read-calls.ts'
import { revokeAllRoutes } from './revoke-all-page.ts'
import { rotateRoutes } from './rotate-page.ts'
import type { KeySearch } from './rows/key-rows.ts'
import { selectedRoutes } from './selected-pages.ts'
import { stepRoutes } from './step-pages.ts'

export { type LeakAction, type LeakOutcome, reportLeak } from './operations/key-operations.ts'
export { createRegistry, type Registry } from './operations/registry.ts'
export { type KeyRows, openKeyRows } from './rows/key-rows.ts'
export { MAX_COUNTED, NO_KEYS, type WorkspaceKeyCounts } from './search/count-keys.ts'
export { isSearchText, KEY_QUERY_EXPECTED } from './search/key-query.ts'

export const KEY_CALLS: readonly AdminCall<Registry>[] = [...CHANGE_CALLS, ...READ_CALLS, ...TRANSFER_CALLS]
const PAGES = [
  keyRoutes,
  listRoutes,
  findKeyRoutes,
  issueRoutes,
  rotateRoutes,
  stepRoutes,
  selectedRoutes,
  bulkProgressRoutes,
  editRoutes,
  revokeAllRoutes,
  planRoutes,
]

/** Issuing, finding and changing keys. */
export function createKeys(context: ConsoleContext, registry: Registry, usage: UsageService): Capability {
  const { config } = context
  const { scopes, routes } = config
  const gatewayUrl = config.console.gatewayUrl?.replace(/\/$/, '') ?? null
  const { search, responses } = registry
  let stopCounting = () => {}
  return {
    calls: bindCalls(KEY_CALLS, registry),
    registerPages(scope) {
      for (const register of PAGES) register(scope, { registry, usage, scopes, routes, gatewayUrl })
    },
    start() {
      stopCounting = startCountingKeys({ ...context, search })
    },
    purge: () => responses.purge(),
    async stop() {
      stopCounting()
    },
  }
}

/** Reads every row: often enough for a graph, rarely enough for the load. */
const COUNT_PERIOD_MS = 15_000
/** With millions of keys a count takes seconds: it rests for so many times as long. */
const COUNT_REST = 50
const WEEK_MS = 7 * 86_400_000
const MONTH_MS = 30 * 86_400_000

interface CountParts extends Pick<ConsoleContext, 'clock' | 'timers' | 'logger'> {
  readonly search: Pick<KeySearch, 'countByState'>
  readonly metrics: Pick<Metrics, 'keys'>
}

/**
 * Counts keys by state, so that a scrape waits for no database: now, and again after a rest that begins when a count has ended.
 * @returns ends it
 */
export function startCountingKeys(parts: CountParts): () => void {
  const { clock, timers, logger } = parts
  let isStopped = false
  let cancelNext = () => {}
  const count = async () => {
    const startedMs = clock.monotonicMs()
    await setGauges(parts).catch((error: unknown) => logUpkeepFailed(logger, error))
    if (isStopped) return
    const tookMs = clock.monotonicMs() - startedMs
    cancelNext = timers.after(Math.max(COUNT_PERIOD_MS, tookMs * COUNT_REST), () => void count())
  }
  void count()
  return () => {
    isStopped = true
    cancelNext()
  }
}

async function setGauges({ search, metrics, clock }: CountParts): Promise<void> {
  const nowMs = clock.wallMs()
  const bounds = { nowMs, weekMs: nowMs + WEEK_MS, monthMs: nowMs + MONTH_MS }
  const counts = await search.countByState(bounds)
  for (const state of KEY_STATE_LABELS) metrics.keys.set({ state }, counts[state])
}
