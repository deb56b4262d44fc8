import type { FastifyInstance } from 'fastify'
import { narrowReload, type OnReload } from '../../config/reloadable.ts'
import type { Config } from '../../config/schema/schema.ts'
import { FailureLog } from '../../observability/failure-log.ts'
import type { ConsoleContext } from '../platform/capability.ts'
import { AcceptedTokens, requireBearer } from '../platform/http/authenticate-programs.ts'
import { mountCalls } from '../platform/http/calls.ts'
import { createConsoleServer } from '../platform/http/console-server.ts'
import type { UsageService } from '../usage/index.ts'
import { type KeyServiceSources, keyServiceCalls } from './api.ts'
import { readTlsOptions, rejectSwitching, watchTls } from './listener-tls.ts'

/** The listener for gateways: it serves `/internal/v1` and nothing else. It does not listen yet. */
export function createInternalListener(
  context: ConsoleContext,
  sources: KeyServiceSources,
  usage: UsageService,
): FastifyInstance {
  const { config, onReload, metrics, secrets } = context
  const settings = config.console.internal
  const tls = readTlsOptions(settings.tls)
  // Gateways connect directly: no proxy is trusted.
  const app = createConsoleServer({
    ...context,
    listener: 'internal',
    keyPrefix: config.keys.prefix,
    trustedProxies: [],
    limits: settings,
    tls,
  })
  const onTlsReload = narrowReload(onReload, next => next.console.internal.tls)
  onTlsReload(rejectSwitching(settings.tls))
  if (tls !== null) watchHandshakes(context, app, onTlsReload)
  const tokens = new AcceptedTokens({
    ...context,
    setting: 'keyService.token',
    tokens: () => secrets.value.keyServiceTokens,
  })
  const calls = keyServiceCalls({ ...context, ...sources, usageCall: usage.call })
  mountCalls(
    app,
    { prefix: '/internal/v1', admit: requireBearer(tokens), unknownPath: 'unknown_path' },
    calls,
  )
  // At zero from the start, so that an alert on a rate fires on the first failure.
  for (const { operation } of calls) {
    for (const code of ['401', '500']) metrics.internalRequests.inc({ operation, code }, 0)
  }
  return app
}

function watchHandshakes(
  { metrics, logger, clock }: ConsoleContext,
  app: FastifyInstance,
  onTlsReload: OnReload<Config['console']['internal']['tls']>,
): void {
  const failures = new FailureLog('internal TLS handshake', logger, clock)
  watchTls(app, onTlsReload, {
    succeeded: () => failures.succeeded(),
    failed: error => {
      metrics.internalTlsFailures.inc()
      failures.failed(error)
    },
  })
}
