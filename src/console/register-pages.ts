import type { FastifyInstance } from 'fastify'
import type { ControlLogger } from '../observability/control-logger.ts'
import { editRoutes } from './keys/pages/edit-routes.ts'
import { findKeyRoutes } from './keys/pages/find-key-routes.ts'
import { issueRoutes } from './keys/pages/issue-routes.ts'
import { listRoutes } from './keys/pages/list-routes.ts'
import { revokeAllRoutes } from './keys/pages/revoke-all-routes.ts'
import { rotateRoutes } from './keys/pages/rotate-routes.ts'
import { stepRoutes } from './keys/pages/step-routes.ts'
import type { PageDependencies } from './page-dependencies.ts'
import { registerAssets } from './platform/html/assets.ts'
import { usePageErrors, usePageNotFound } from './platform/html/page-errors.ts'
import { readingRoutes } from './platform/html/reading-routes.ts'
import { peopleRoutes } from './sign-in/people-routes.ts'
import { usageRoutes } from './usage/pages/usage-routes.ts'
import { deliveryRoutes } from './webhooks/delivery-routes.ts'
import { webhookRoutes } from './webhooks/webhook-routes.ts'

/** The console's pages, in a scope that identifies people and parses forms. */
export function registerPages(
  scope: FastifyInstance,
  sources: PageDependencies,
  logger: ControlLogger,
): void {
  usePageErrors(scope, { clock: sources.registry.clock, logger })
  usePageNotFound(scope)
  registerAssets(scope)
  readingRoutes(scope, sources)
  listRoutes(scope, sources)
  usageRoutes(scope, sources)
  deliveryRoutes(scope, sources)
  webhookRoutes(scope, sources)
  issueRoutes(scope, sources)
  rotateRoutes(scope, sources)
  findKeyRoutes(scope, sources)
  stepRoutes(scope, sources)
  editRoutes(scope, sources)
  revokeAllRoutes(scope, sources)
  peopleRoutes(scope, sources)
}
