import type { FastifyInstance } from 'fastify'
import type { ControlLogger } from '../../observability/control-logger.ts'
import { registerAssets } from './layout/assets.ts'
import type { PageDependencies } from './page-dependencies.ts'
import { deliveryRoutes } from './routes/delivery-routes.ts'
import { editRoutes } from './routes/edit-routes.ts'
import { findKeyRoutes } from './routes/find-key-routes.ts'
import { issueRoutes } from './routes/issue-routes.ts'
import { listRoutes } from './routes/list-routes.ts'
import { usePageErrors, usePageNotFound } from './routes/page-errors.ts'
import { peopleRoutes } from './routes/people-routes.ts'
import { readingRoutes } from './routes/reading-routes.ts'
import { revokeAllRoutes } from './routes/revoke-all-routes.ts'
import { rotateRoutes } from './routes/rotate-routes.ts'
import { stepRoutes } from './routes/step-routes.ts'
import { usageRoutes } from './routes/usage-routes.ts'
import { webhookRoutes } from './routes/webhook-routes.ts'

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
