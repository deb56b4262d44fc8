import { afterEach, expect, test } from 'vitest'
import type { UpstreamSettings } from '../../src/gateway/upstream-connection.ts'
import {
  FILES_PATH,
  type ForwardingApp,
  startForwardingApp,
  WORKSPACE_PATH,
} from '../support/forwarding-app.ts'
import { get } from '../support/http-client.ts'
import {
  json,
  type Script,
  type ScriptedUpstream,
  startScriptedUpstream,
} from '../support/scripted-upstream.ts'

let upstream: ScriptedUpstream
let gateway: ForwardingApp

async function start(script: Script, settings: Partial<UpstreamSettings> = {}) {
  upstream = await startScriptedUpstream(script)
  gateway = await startForwardingApp(upstream.url, settings)
}

afterEach(async () => {
  await gateway.stop()
  await upstream.stop()
})

test('an answer passes with its status, its body and what we say of it', async () => {
  await start(request => request.send(json('{"id":"ws_1"}')))
  const answer = await get(gateway.port, WORKSPACE_PATH)
  expect(answer.status).toBe(200)
  expect(answer.text).toBe('{"id":"ws_1"}')
  expect(answer.headers).toMatchObject({
    'content-type': 'application/json',
    'content-length': '13',
    'cache-control': 'private',
    'x-request-id': 'req-1',
  })
  expect(gateway.contexts[0]?.seen.upstreamWaitMs).toBeGreaterThan(0)
})

test('the upstream receives exactly what the gateway wrote, and nothing of the client beside the allow-list', async () => {
  await start(request => request.send(json('{}')), { headers: { Authorization: 'Bearer service' } })
  await get(gateway.port, `${FILES_PATH}?limit=5`, {
    Authorization: 'Bearer wsk_secret',
    Accept: 'application/json',
    Cookie: 'a=b',
    'X-Postern-Key-Id': 'key_forged',
    X_Postern_Key_Id: 'key_forged',
    'X-Forwarded-For': '10.0.0.1',
    Connection: 'close, accept, x-postern-key-id',
    TE: 'trailers',
    'Keep-Alive': 'timeout=5',
    Upgrade: 'h2c',
    Host: 'public.example',
  })
  expect(upstream.requests[0]?.head.split('\r\n')).toEqual([
    `GET ${FILES_PATH}?limit=5 HTTP/1.1`,
    `host: 127.0.0.1:${upstream.port}`,
    'connection: keep-alive',
    'accept: application/json',
    'authorization: Bearer service',
    'x-postern-workspace-id: ws_1',
    'x-postern-key-id: key_01',
    'x-postern-scopes: files:read workspace:read',
    'x-request-id: req-1',
    'x-forwarded-for: 127.0.0.1',
    'x-forwarded-proto: http',
    'x-forwarded-host: public.example',
    '',
    '',
  ])
})
