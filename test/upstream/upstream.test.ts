import { IncomingMessage, ServerResponse } from 'node:http'
import { Socket } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { neverReloads } from '../../src/config/reloadable.ts'
import { authorize } from '../../src/domain/authorize.ts'
import { compileRoutes, matchRoute } from '../../src/domain/route/route.ts'
import { AccessLog } from '../../src/observability/access-log.ts'
import { createMetrics } from '../../src/observability/metrics/metrics.ts'
import type { RequestTrace } from '../../src/observability/request-observation.ts'
import { RequestObserver } from '../../src/observability/request-observer.ts'
import { createUpstream } from '../../src/upstream/upstream.ts'
import { DEFAULT_SETTINGS } from '../support/forwarding-app.ts'
import { grantOf } from '../support/key-records.ts'
import { ManualClock } from '../support/manual-clock.ts'
import { silentLogger } from '../support/silent-logger.ts'

const ROUTES = compileRoutes([{ name: 'one', path: '/w/{workspaceId}' }])
const GRANT = grantOf({ workspaceId: 'ws_1' })
const trace: RequestTrace = {
  ...{ traceId: '', spanId: '', recorded: true, lookedUp() {}, forwarded() {}, end() {} },
  forwarding: () => 'of the upstream’s span',
}

/** What reaches the upstream of a client's request. */
function sent({
  url = 'http://files.test',
  headers = {},
  isTraced = false,
}: {
  url?: string
  headers?: Record<string, string>
  isTraced?: boolean
}) {
  const metrics = createMetrics()
  const upstream = createUpstream({
    settings: { ...DEFAULT_SETTINGS, url },
    requestHeaders: ['traceparent'],
    responseHeaders: [],
    trustedProxies: null,
    metrics,
    clock: new ManualClock(),
    logger: silentLogger,
    onReload: neverReloads,
  })
  onTestFinished(() => upstream.pool.destroy())
  const observer = new RequestObserver({
    metrics,
    accessLog: new AccessLog(silentLogger, { write: () => {} }),
    tracing: isTraced ? { begin: () => trace, stop: () => Promise.resolve() } : null,
    routes: [],
    workspaces: null,
    recordUsage: () => {},
  })
  // Its client has disconnected: the socket has no address.
  const message = Object.assign(new IncomingMessage(new Socket()), { headers })
  const match = matchRoute(ROUTES, '/w/ws_1')
  if (match === null) throw new Error('No route')
  const lookup = { kind: 'found', grant: GRANT, tier: 'memory' } as const
  const verdict = authorize({ lookup, match, query: '', nowMs: 0, clientAddress: '' })
  if (verdict.kind === 'denied') throw new Error(verdict.reason)
  const request = { message, response: new ServerResponse(message), observation: observer.begin(message) }
  return upstream.requestFor(request, verdict.permit)
}

test.each([
  ['', ''],
  ['/', ''],
  ['/inner/v2', '/inner/v2'],
  ['/inner/v2/', '/inner/v2'],
  ['/inner///', '/inner'],
  ['//inner/', '//inner'],
])('with the path %j in upstream.url the path of a route follows on %j', (path, prefix) => {
  expect(sent({ url: `http://files.test${path}` }).path).toBe(`${prefix}/w/ws_1`)
})

test('a traced request continues the trace; without tracing the client’s own field passes', () => {
  const headers = { traceparent: 'of the client' }
  expect(sent({ headers }).headers['traceparent']).toBe('of the client')
  expect(sent({ headers, isTraced: true }).headers['traceparent']).toBe('of the upstream’s span')
  expect(sent({}).headers).not.toHaveProperty('traceparent')
})

test('a client that has disconnected has no address', () => {
  expect(sent({}).headers['x-forwarded-for']).toBe('')
})
