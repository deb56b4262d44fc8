import { isDeepStrictEqual } from 'node:util'
import type { FastifyInstance } from 'fastify'
import type { OnReload } from '../../config/reloadable.ts'
import type { Config } from '../../config/schema/schema.ts'
import type { Clock } from '../../domain/clock.ts'
import type { ProxySettings } from '../../domain/proxy.ts'
import type { ControlLogger } from '../../observability/control-logger.ts'
import type { Metrics } from '../../observability/metrics/metrics.ts'
import type { AuditedDatabase } from '../platform/audit/mac.ts'
import type { Capability } from '../platform/capability.ts'
import type { RandomBytes } from '../platform/database/ids.ts'
import { SIGN_IN_CALLBACK } from '../platform/html/paths.ts'
import { createAddressLimit } from '../platform/http/authenticate-programs.ts'
import { authenticatePeople, parseSite, type Site } from './authenticate-people.ts'
import type { OneTimeLink } from './one-time-link.ts'
import { peopleRoutes, signInRoutes } from './pages.ts'
import { createProvider, type Provider } from './provider.ts'
import { createSessions, type Sessions } from './sessions.ts'

export type { OneTimeLink } from './one-time-link.ts'

export interface SignIn {
  readonly sessions: Sessions
  /** Identifies signed-in people in this scope. */
  authenticate(scope: FastifyInstance): Promise<void>
  /** Pages for signing in and out, and for administrators the people who are signed in. */
  readonly capability: Capability
}

interface SignInSources {
  readonly config: Config['console']
  /** Reports a new client secret or certificate authority. */
  readonly onReload: OnReload<Config['console']>
  readonly database: AuditedDatabase
  readonly newAuditId: (nowMs: number) => string
  readonly oneTimeLink: OneTimeLink | null
  readonly clock: Clock
  readonly randomBytes: RandomBytes
  readonly metrics: Metrics
  readonly logger: ControlLogger
  readonly proxies: ProxySettings
}

export function createSignIn(sources: SignInSources): SignIn {
  const { config, database, oneTimeLink, clock, randomBytes, logger } = sources
  const site = config.publicUrl === undefined ? null : parseSite(config.publicUrl)
  const sessions = createSessions({ ...sources, limits: config.session })
  const provider = site === null ? null : configuredProvider(site, sources)
  if (provider === null && oneTimeLink === null && config.adminToken === undefined) {
    logger.warn('no way to sign in: set console.adminToken or console.oidc.issuer')
  }
  return {
    sessions,
    authenticate: scope => authenticatePeople(scope, { sessions, site }),
    capability: {
      registerPages(scope) {
        const limit = createAddressLimit(config.signInsPerMinute, randomBytes)
        const { absoluteSeconds } = config.session
        signInRoutes(scope, { ...sources, site, sessions, provider, limit, absoluteSeconds })
        peopleRoutes(scope, { clock, sessions, people: { database, clock, limits: config.session } })
      },
      purge: () => sessions.purge(),
      async stop() {
        await provider?.stop()
      },
    },
  }
}

function configuredProvider(site: Site, sources: SignInSources): Provider | null {
  const { config, onReload, clock, logger, proxies } = sources
  const { issuer, clientId } = config.oidc
  if (issuer === undefined || clientId === undefined) return null
  const parts = { redirectUri: site.origin + SIGN_IN_CALLBACK, clock, logger, proxies }
  const makeProvider = (oidc: Config['console']['oidc']) =>
    createProvider({ ...oidc, issuer, clientId }, parts)
  let current = { oidc: config.oidc, provider: makeProvider(config.oidc) }
  onReload(({ oidc }) => {
    // Keep the provider's cached metadata while nothing changes how it is fetched.
    if (oidc.caFile === undefined && isDeepStrictEqual(oidc, current.oidc)) return () => {}
    const next = { oidc, provider: makeProvider(oidc) }
    // Connections of the previous provider close once they are idle.
    return () => {
      current = next
    }
  })
  return {
    begin: returnPath => current.provider.begin(returnPath),
    finish: (address, attempt) => current.provider.finish(address, attempt),
    stop: () => current.provider.stop(),
  }
}
