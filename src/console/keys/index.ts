import type { Config } from '../../config/schema/schema.ts'
import type { Capability } from '../platform/capability.ts'
import { bindCalls } from '../platform/http/admin-call.ts'
import type { UsageService } from '../usage/index.ts'
import { BULK_CALLS } from './api/bulk-calls.ts'
import { EXPORT_CALLS } from './api/export-calls.ts'
import { IMPORT_CALLS } from './api/import-calls.ts'
import { KEY_CALLS } from './api/key-calls.ts'
import { KEY_OPERATION_CALLS } from './api/key-operation-calls.ts'
import { SEARCH_CALLS } from './api/search-calls.ts'
import type { KeyParts } from './operations/operation-counter.ts'
import { editRoutes } from './pages/edit-routes.ts'
import { findKeyRoutes } from './pages/find-key-routes.ts'
import { issueRoutes } from './pages/issue-routes.ts'
import { keyRoutes } from './pages/key-routes.ts'
import { listRoutes } from './pages/list-routes.ts'
import { revokeAllRoutes } from './pages/revoke-all-routes.ts'
import { rotateRoutes } from './pages/rotate-routes.ts'
import { stepRoutes } from './pages/step-routes.ts'

const CALLS = [
  ...KEY_OPERATION_CALLS,
  ...KEY_CALLS,
  ...SEARCH_CALLS,
  ...BULK_CALLS,
  ...EXPORT_CALLS,
  ...IMPORT_CALLS,
]

/** Issuing, finding and changing keys. */
export function createKeys(
  keyParts: KeyParts,
  { usage, config }: { readonly usage: UsageService; readonly config: Config },
): Capability {
  const { scopes, routes } = config
  const gatewayUrl = config.console.gatewayUrl?.replace(/\/$/, '') ?? null
  const pageParts = { ...keyParts, usage, scopes, routes, gatewayUrl }
  const pages = [
    keyRoutes,
    listRoutes,
    findKeyRoutes,
    issueRoutes,
    rotateRoutes,
    stepRoutes,
    editRoutes,
    revokeAllRoutes,
  ]
  return {
    calls: bindCalls(CALLS, keyParts),
    registerPages(scope) {
      for (const register of pages) register(scope, pageParts)
    },
  }
}
