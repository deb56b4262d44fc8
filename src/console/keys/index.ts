import type { Capability } from '../platform/capability.ts'
import type { ConsoleContext } from '../platform/console-context.ts'
import { type AdminCall, bindCalls } from '../platform/http/calls.ts'
import type { UsageService } from '../usage/index.ts'
import { CHANGE_CALLS } from './change-calls.ts'
import { editRoutes } from './edit-page.ts'
import { findKeyRoutes } from './find-key-page.ts'
import { TRANSFER_CALLS } from './import-export.ts'
import { issueRoutes } from './issue-page.ts'
import { keyRoutes } from './key-page.ts'
import { listRoutes } from './list-page.ts'
import { planRoutes } from './plan-page.ts'
import { READ_CALLS } from './read-calls.ts'
import type { Registry } from './registry.ts'
import { revokeAllRoutes } from './revoke-all-page.ts'
import { rotateRoutes } from './rotate-page.ts'
import { startCountingKeys } from './search/count-states.ts'
import { stepRoutes } from './step-pages.ts'

export { type LeakAction, type LeakOutcome, reportLeak } from './operations.ts'
export { type OpenRegistry, openRegistry, type Registry } from './registry.ts'
export type { KeyRepository } from './rows/key-repository.ts'
export type { WorkspacePage, WorkspaceQuery, WorkspaceSummary } from './search/list-workspaces.ts'

export const KEY_CALLS: readonly AdminCall<Registry>[] = [...CHANGE_CALLS, ...READ_CALLS, ...TRANSFER_CALLS]
const PAGES = [
  keyRoutes,
  listRoutes,
  findKeyRoutes,
  issueRoutes,
  rotateRoutes,
  stepRoutes,
  editRoutes,
  revokeAllRoutes,
  planRoutes,
]

/** Issuing, finding and changing keys. */
export function createKeys(context: ConsoleContext, registry: Registry, usage: UsageService): Capability {
  const { config } = context
  const { scopes, routes } = config
  const gatewayUrl = config.console.gatewayUrl?.replace(/\/$/, '') ?? null
  const { repository } = registry
  let stopCounting = () => {}
  return {
    calls: bindCalls(KEY_CALLS, registry),
    registerPages(scope) {
      for (const register of PAGES) register(scope, { registry, usage, scopes, routes, gatewayUrl })
    },
    start() {
      stopCounting = startCountingKeys({ ...context, repository })
    },
    purge: () => repository.purge(),
    async stop() {
      stopCounting()
    },
  }
}
