import type { FastifyInstance } from 'fastify'
import { type OnReload, onReloadOf } from '../../config/reloadable.ts'
import type { Config } from '../../config/schema/schema.ts'
import { FailureLog } from '../../observability/failure-log.ts'
import type { AcceptedTokens } from '../platform/http/accepted-tokens.ts'
import { requireBearer } from '../platform/http/bearer.ts'
import type { Call } from '../platform/http/calls.ts'
import { mountCalls } from '../platform/http/calls.ts'
import { createConsoleServer, type ServerParts } from '../platform/http/console-server.ts'
import { rejectSwitching, tlsOptionsOf, watchTls } from '../platform/http/server-tls.ts'

type InternalSettings = Config['console']['internal']

export interface InternalParts
  extends Pick<ServerParts, 'logger' | 'metrics' | 'randomBytes' | 'keyPrefix' | 'clock'> {
  readonly settings: InternalSettings
  readonly onReload: OnReload<InternalSettings>
  /** The bearer tokens of gateways. */
  readonly tokens: AcceptedTokens
  readonly calls: readonly Call[]
}

/** The listener for gateways: it serves `/internal/v1` and nothing else. It does not listen yet. */
export function createInternalServer(parts: InternalParts): FastifyInstance {
  const { settings, onReload, clock, logger, metrics, randomBytes, keyPrefix, tokens, calls } = parts
  const tls = tlsOptionsOf(settings.tls)
  // Gateways connect directly: no proxy is trusted.
  const app = createConsoleServer({
    listener: 'internal',
    logger,
    metrics,
    randomBytes,
    keyPrefix,
    trustedProxies: [],
    clock,
    limits: settings,
    tls,
  })
  const onTlsReload = onReloadOf(onReload, next => next.tls)
  onTlsReload(rejectSwitching(settings.tls))
  if (tls !== null) {
    const failures = new FailureLog('internal TLS handshake', logger, clock)
    const handshakes = {
      succeeded: () => failures.succeeded(),
      failed: (error: Error) => {
        metrics.internalTlsFailures.inc()
        failures.failed(error)
      },
    }
    watchTls(app, onTlsReload, handshakes)
  }
  const admit = requireBearer(tokens)
  mountCalls(app, { prefix: '/internal/v1', admit, unknownPath: 'unknown_path' }, calls)
  // At zero from the start, so that an alert on a rate fires on the first failure.
  for (const { operation } of calls) {
    for (const code of ['401', '500']) metrics.internalRequests.inc({ operation, code }, 0)
  }
  return app
}
