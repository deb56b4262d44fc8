import { isDeepStrictEqual } from 'node:util'
import type { FastifyInstance } from 'fastify'
import { neverReloads, type OnReload } from '../../config/reloadable.ts'
import type { Config } from '../../config/schema.ts'
import type { Clock } from '../../domain/clock.ts'
import type { ControlLogger } from '../../observability/control-logger.ts'
import type { Metrics } from '../../observability/metrics.ts'
import type { Database } from '../registry/database/database.ts'
import type { RandomBytes } from '../registry/operations/ids.ts'
import type { OneTimeLink } from './one-time-link.ts'
import { usePeople } from './people.ts'
import { createProvider, type Provider } from './provider.ts'
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
  /** How a new client secret, and new authorities of the provider, are heard of. */
  readonly onReload?: OnReload<Config['console']>
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
  const provider = site === null ? null : configuredProvider(site, sources)
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

function configuredProvider(site: Site, sources: SignInSources): Provider | null {
  const { config, onReload = neverReloads, clock, logger } = sources
  const { issuer, clientId } = config.oidc
  if (issuer === undefined || clientId === undefined) return null
  const parts = { redirectUri: `${site.origin}/sign-in/callback`, clock, logger }
  const providerOf = (oidc: Config['console']['oidc']) => createProvider({ ...oidc, issuer, clientId }, parts)
  let current = { oidc: config.oidc, provider: providerOf(config.oidc) }
  onReload(({ oidc }) => {
    // What the provider has said of itself is kept while nothing changes how it is asked.
    if (oidc.caFile === undefined && isDeepStrictEqual(oidc, current.oidc)) return () => {}
    const next = { oidc, provider: providerOf(oidc) }
    // The connections of the one before end by themselves, once nobody needs them.
    return () => {
      current = next
    }
  })
  return {
    begin: goal => current.provider.begin(goal),
    finish: (address, attempt) => current.provider.finish(address, attempt),
    stop: () => current.provider.stop(),
  }
}
