import type { FastifyInstance } from 'fastify'
import type { Config } from '../../config/schema.ts'
import type { Clock } from '../../domain/clock.ts'
import type { Metrics } from '../../observability/metrics.ts'
import type { ControlLogger } from '../control-logger.ts'
import type { Database } from '../registry/database.ts'
import type { RandomBytes } from '../registry/ids.ts'
import type { OneTimeLink } from './one-time-link.ts'
import { usePeople } from './people.ts'
import { createProvider, type Provider, type ProviderSettings } from './provider.ts'
import { createSessions, type Sessions } from './sessions.ts'
import { createSignInLimit } from './sign-in-limits.ts'
import { signInRoutes } from './sign-in-routes.ts'
import { type Site, siteOf } from './site.ts'

export interface SignIn {
  readonly sessions: Sessions
  /** Makes of a scope one in which people are known. */
  recognise(scope: FastifyInstance): Promise<void>
  /** The way in and out, in such a scope, where forms are read. */
  routes(scope: FastifyInstance): void
  stop(): Promise<void>
}

export interface SignInSources {
  readonly config: Config['console']
  readonly database: Database
  readonly oneTimeLink: OneTimeLink | null
  readonly clock: Clock
  readonly randomBytes: RandomBytes
  readonly metrics: Metrics
  readonly logger: ControlLogger
}

/** Signing in as it is configured. */
export function createSignIn(sources: SignInSources): SignIn {
  const { config, database, oneTimeLink, clock, randomBytes, metrics, logger } = sources
  const site = config.publicUrl === undefined ? null : siteOf(config.publicUrl)
  const sessions = createSessions({ database, clock, randomBytes, limits: config.session })
  const provider = site === null ? null : configuredProvider(config.oidc, site, sources)
  if (provider === null && oneTimeLink === null && config.adminToken === undefined) {
    logger.warn('nobody can use this console: neither console.adminToken nor console.oidc.issuer is set')
  }
  return {
    sessions,
    recognise: scope => usePeople(scope, { sessions, site }),
    routes: scope =>
      signInRoutes(scope, {
        site,
        sessions,
        provider,
        oneTimeLink,
        limit: createSignInLimit(config.signInsPerMinute, randomBytes),
        absoluteSeconds: config.session.absoluteSeconds,
        clock,
        metrics,
        logger,
      }),
    async stop() {
      await provider?.stop()
    },
  }
}

function configuredProvider(
  oidc: Config['console']['oidc'],
  site: Site,
  { clock, logger }: SignInSources,
): Provider | null {
  if (oidc.issuer === undefined || oidc.clientId === undefined) return null
  const { issuer, clientId } = oidc
  const settings: ProviderSettings = { ...oidc, issuer, clientId }
  return createProvider(settings, { redirectUri: `${site.origin}/sign-in/callback`, clock, logger })
}
