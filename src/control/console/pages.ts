import type { FastifyInstance } from 'fastify'
import type { ControlLogger } from '../../observability/control-logger.ts'
import { registerAssets } from './assets.ts'
import { endingRoutes } from './ending-routes.ts'
import { issueRoutes } from './issue-routes.ts'
import { usePageErrors } from './page-errors.ts'
import type { PageSources } from './page-sources.ts'
import { readingPages } from './reading-pages.ts'
import { rotateRoutes } from './rotate-routes.ts'

/** The console's pages, in a scope in which people are known and forms are read. */
export function registerPages(scope: FastifyInstance, sources: PageSources, logger: ControlLogger): void {
  usePageErrors(scope, { clock: sources.registry.clock, logger })
  registerAssets(scope)
  readingPages(scope, sources)
  issueRoutes(scope, sources)
  rotateRoutes(scope, sources)
  endingRoutes(scope, sources)
}
