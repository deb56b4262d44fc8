import type { Capability } from '../platform/capability.ts'
import type { ConsoleContext } from '../platform/console-context.ts'
import { bindCalls } from '../platform/http/calls.ts'
import type { UsageService } from '../usage/index.ts'
import { CHANGE_CALLS } from './api/change-calls.ts'
import { READ_CALLS } from './api/read-calls.ts'
import { TRANSFER_CALLS } from './api/transfer-calls.ts'
import { startCountingKeys } from './count-states.ts'
import { editRoutes } from './pages/edit-page.ts'
import { findKeyRoutes } from './pages/find-key-page.ts'
import { issueRoutes } from './pages/issue-page.ts'
import { keyRoutes } from './pages/key-page.ts'
import { listRoutes } from './pages/list-page.ts'
import { revokeAllRoutes } from './pages/revoke-all-page.ts'
import { rotateRoutes } from './pages/rotate-page.ts'
import { stepRoutes } from './pages/step-pages.ts'
import type { KeyParts } from './registry.ts'

const CALLS = [...CHANGE_CALLS, ...READ_CALLS, ...TRANSFER_CALLS]
const PAGES = [
  keyRoutes,
  listRoutes,
  findKeyRoutes,
  issueRoutes,
  rotateRoutes,
  stepRoutes,
  editRoutes,
  revokeAllRoutes,
]

/** Issuing, finding and changing keys. */
export function createKeys(context: ConsoleContext, keyParts: KeyParts, usage: UsageService): Capability {
  const { config } = context
  const { scopes, routes } = config
  const gatewayUrl = config.console.gatewayUrl?.replace(/\/$/, '') ?? null
  const pageParts = { ...keyParts, usage, scopes, routes, gatewayUrl }
  const { repository } = keyParts.registry
  let stopCounting = () => {}
  return {
    calls: bindCalls(CALLS, keyParts),
    registerPages(scope) {
      for (const register of PAGES) register(scope, pageParts)
    },
    start() {
      stopCounting = startCountingKeys({ ...context, repository })
    },
    async stop() {
      stopCounting()
    },
  }
}
