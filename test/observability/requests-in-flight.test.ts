import { IncomingMessage, ServerResponse } from 'node:http'
import { Socket } from 'node:net'
import { expect, test } from 'vitest'
import type { Lookup } from '../../src/domain/key/key-record.ts'
import { AccessLog } from '../../src/observability/access-log.ts'
import { createMetrics } from '../../src/observability/metrics/metrics.ts'
import { RequestObserver } from '../../src/observability/request-observer.ts'
import { exampleGrant } from '../domain/examples.ts'
import { silentLogger } from '../support/silent-logger.ts'

const accessLog = new AccessLog(silentLogger, { write: () => {} })
const observer = () =>
  new RequestObserver({
    metrics: createMetrics(),
    accessLog,
    tracing: null,
    routes: [],
    workspaces: null,
    recordUsage: () => {},
  })
const request = new IncomingMessage(new Socket())
const response = new ServerResponse(request)

function found(workspaceId: string): Lookup {
  const grant = exampleGrant({
    id: 'key_1',
    workspaceId,
    scopes: [],
    hint: 'wsk_…abcd',
    expiresAtMs: 1,
  })
  return { kind: 'found', grant, tier: 'memory' }
}

test('a request counts for its workspace from its lookup until Node has the whole response', () => {
  const counted = observer()
  const [one, other] = [counted.begin(request), counted.begin(request)]
  expect([counted.inFlight, counted.countInFlight('ws_1')]).toEqual([2, 0])
  for (const seen of [one, other]) counted.lookedUp(seen, found('ws_1'))
  expect([counted.inFlight, counted.countInFlight('ws_1'), counted.countInFlight('ws_2')]).toEqual([2, 2, 0])
  counted.handedOver(one)
  counted.end(one, response)
  expect([counted.inFlight, counted.countInFlight('ws_1')]).toEqual([1, 1])
  counted.end(other, response)
  expect([counted.inFlight, counted.countInFlight('ws_1')]).toEqual([0, 0])
})

test('a request whose client disconnects during the lookup does not stay counted', () => {
  const counted = observer()
  const seen = counted.begin(request)
  counted.end(seen, response)
  counted.lookedUp(seen, found('ws_1'))
  expect([counted.inFlight, counted.countInFlight('ws_1')]).toEqual([0, 0])
})
