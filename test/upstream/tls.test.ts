import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { TLSSocket, type TlsOptions } from 'node:tls'
import { afterAll, afterEach, expect, test } from 'vitest'
import type { UpstreamSettings } from '../../src/upstream/pool/connection.ts'
import { makeCertificates } from '../support/certificates.ts'
import {
  type ForwardingApp,
  metricSum,
  startForwardingApp,
  WORKSPACE_PATH,
} from '../support/forwarding-app.ts'
import { get } from '../support/http-client.ts'
import { json, type ScriptedUpstream, startScriptedUpstream } from '../support/scripted-upstream.ts'

const certificates = await makeCertificates()
let upstream: ScriptedUpstream
let gateway: ForwardingApp

async function start(server: TlsOptions, tls: UpstreamSettings['tls']) {
  upstream = await startScriptedUpstream(request => request.send(json('{}')), server)
  gateway = await startForwardingApp(upstream.url, { tls })
}

const send = () => get(gateway.port, WORKSPACE_PATH)
const tlsErrors = () => metricSum(gateway.metrics, 'postern_upstream_errors_total', { kind: 'tls' })

afterEach(async () => {
  await gateway.stop()
  await upstream.stop()
})
afterAll(() => certificates.remove())

test('an upstream with a configured authority is used', async () => {
  await start(certificates.server, { caFile: certificates.caFile })
  expect(await send()).toMatchObject({ status: 200, text: '{}' })
})

test('an upstream with an unknown authority does not receive the request', async () => {
  await start(certificates.server, {})
  expect((await send()).status).toBe(502)
  expect(upstream.requests).toHaveLength(0)
  expect(await tlsErrors()).toBe(1)
})

test('an upstream with a certificate for another name does not receive the request', async () => {
  await start(certificates.misnamed, { caFile: certificates.caFile })
  expect((await send()).status).toBe(502)
  expect(upstream.requests).toHaveLength(0)
  expect(await tlsErrors()).toBe(1)
})

test('an upstream with an expired certificate does not receive the request', async () => {
  await start(certificates.expired, { caFile: certificates.caFile })
  expect((await send()).status).toBe(502)
  expect(upstream.requests).toHaveLength(0)
  expect(await tlsErrors()).toBe(1)
})

test('an upstream without TLS is a 502', async () => {
  upstream = await startScriptedUpstream(() => {})
  upstream.greeting = 'HTTP/1.1 400 Bad Request\r\n\r\n'
  gateway = await startForwardingApp(upstream.url.replace('http:', 'https:'))
  expect((await send()).status).toBe(502)
  expect(await tlsErrors()).toBe(1)
})

test('the gateway presents its client certificate', async () => {
  const { caFile, clientCertFile: certFile, clientKeyFile: keyFile } = certificates
  const server = {
    ...certificates.server,
    ca: readFileSync(caFile),
    requestCert: true,
    rejectUnauthorized: true,
  }
  await start(server, { caFile, certFile, keyFile })
  expect((await send()).status).toBe(200)
  const [socket] = upstream.sockets
  expect(socket instanceof TLSSocket && socket.getPeerCertificate().subject.CN).toBe('client')
})

test('a stale connection is also retried over TLS, where a close_notify arrives as bytes', async () => {
  await start(certificates.server, { caFile: certificates.caFile })
  expect((await send()).status).toBe(200)
  upstream.script = request => {
    if (request.numberOnConnection > 0) request.socket.end()
    else request.send(json('"again"'))
  }
  expect((await send()).text).toBe('"again"')
  expect(upstream.requests).toHaveLength(3)
})

test('a request whose client disconnects during the handshake is never sent, and the next one uses its connection', async () => {
  upstream = await startScriptedUpstream(request => request.send(json('"next"')), certificates.server)
  const gate = await startGate(upstream.port)
  let noteClose = () => {}
  const closed = new Promise<void>(resolve => {
    noteClose = resolve
  })
  const tls = { caFile: certificates.caFile }
  gateway = await startForwardingApp(`https://127.0.0.1:${gate.port}`, { tls, connections: 1 }, {}, app => {
    app.addHook('onRequest', async (_request, reply) => void reply.raw.on('close', noteClose))
  })
  const leaving = connect(gateway.port, '127.0.0.1')
  leaving.write(`GET ${WORKSPACE_PATH} HTTP/1.1\r\nHost: x\r\n\r\n`)
  await gate.connected
  leaving.destroy()
  await closed
  gate.open()
  expect((await send()).text).toBe('"next"')
  expect(upstream.requests).toHaveLength(1)
  gate.close()
})

test('a handshake that never ends is a 504', async () => {
  upstream = await startScriptedUpstream(() => {}, certificates.server)
  const gate = await startGate(upstream.port)
  gateway = await startForwardingApp(`https://127.0.0.1:${gate.port}`, { connectTimeoutMs: 100 })
  expect((await send()).status).toBe(504)
  expect(await metricSum(gateway.metrics, 'postern_upstream_errors_total', { kind: 'connect_timeout' })).toBe(
    1,
  )
  gate.close()
})

/** A TCP proxy that forwards no bytes until it is opened, which delays a handshake. */
async function startGate(target: number) {
  const sockets: Socket[] = []
  const server = createServer(socket => sockets.push(socket.pause().on('error', () => {})))
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const { port } = server.address() as AddressInfo
  return {
    port,
    connected: once(server, 'connection'),
    open() {
      for (const socket of sockets)
        socket.pipe(connect(target, '127.0.0.1').on('error', () => {})).pipe(socket)
      server.on('connection', socket =>
        socket.pipe(connect(target, '127.0.0.1').on('error', () => {})).pipe(socket),
      )
    },
    close: () => server.close(),
  }
}
