import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Certificates, makeCertificates } from '../support/certificates.ts'
import { doctor, type Settings } from '../support/doctor.ts'
import { ForwardProxy } from '../support/forward-proxy.ts'
import { freePort } from '../support/free-port.ts'
import { json, type ScriptedUpstream, startScriptedUpstream } from '../support/scripted-upstream.ts'

let certificates: Certificates
let proxy: ForwardProxy
let secure: ScriptedUpstream
beforeAll(async () => {
  certificates = await makeCertificates()
  proxy = await ForwardProxy.start()
  secure = await startScriptedUpstream(request => request.send(json('{}')), certificates.server)
})
afterAll(async () => {
  await secure.stop()
  proxy.stop()
  certificates.remove()
})

const CONSOLE: Settings = {
  POSTERN_DATABASE_URL: 'sqlite::memory:',
  POSTERN_KEYS_SIGNING_SECRETS: randomBytes(32).toString('base64'),
  POSTERN_ADMIN_TOKEN: 'an-admin-token-for-tests',
}

function webhookTo(url: string): Settings {
  return {
    ...CONSOLE,
    POSTERN_CONSOLE_WEBHOOK_URL: url,
    POSTERN_CONSOLE_WEBHOOK_SECRET: randomBytes(32).toString('base64'),
    POSTERN_CONSOLE_WEBHOOK_CA_FILE: certificates.caFile,
  }
}

test('the receiver of events is reached as events are, and its certificate has a date', async () => {
  const { found } = await doctor('console', webhookTo(`${secure.url}/events`))
  expect(found.get('webhook')).toBe(
    `ok: ${new URL(secure.url).host} answers with 200, WARNING: certificate expires in 1 day, renew it`,
  )
  const { found: absent, code } = await doctor('console', webhookTo(`http://127.0.0.1:${await freePort()}`))
  expect(absent.get('webhook')).toMatch(
    /^FAILED: .*start the receiver of events, or correct console\.webhook\.url/,
  )
  expect(code).toBe(69)
})

test('a host outside is asked for through the proxy of the settings, whose refusal is named', async () => {
  proxy.routes.set('events.test:443', Number(new URL(secure.url).port))
  const { found } = await doctor('console', {
    ...webhookTo('https://events.test/events'),
    HTTPS_PROXY: proxy.url,
  })
  // The certificate is for another name, which only the far end of the tunnel can have said.
  expect(found.get('webhook')).toMatch(/^FAILED: events\.test: tls .*console\.webhook\.caFile/)
  const { found: refused } = await doctor('console', {
    ...CONSOLE,
    POSTERN_LEAKS_ENABLED: 'true',
    POSTERN_CONSOLE_PUBLIC_URL: 'http://localhost:8081',
    POSTERN_LEAKS_GITHUB_KEYS_URL: 'https://keys.test/keys',
    HTTPS_PROXY: proxy.url,
  })
  expect(refused.get('leak reports')).toMatch(
    /^FAILED: the proxy .* of outgoing\.httpsProxy \(HTTPS_PROXY\) responded with 502/,
  )
})

test('collectors of traces and of usage are asked for at the gateway', async () => {
  const collector = await startScriptedUpstream(request => request.send(json('{}')))
  const nothing = `http://127.0.0.1:${await freePort()}`
  const { found } = await doctor('gateway', {
    POSTERN_UPSTREAM_URL: collector.url,
    POSTERN_KEYS_FORMAT: 'opaque',
    POSTERN_REDIS_URL: 'redis://127.0.0.1:1',
    POSTERN_TRACING_ENDPOINT: collector.url,
    POSTERN_USAGE_EXPORT_URL: `${nothing}/usage`,
  })
  await collector.stop()
  expect(found.get('traces')).toBe(`ok: ${new URL(collector.url).host} answers with 200`)
  expect(found.get('usage export')).toMatch(/^FAILED: .*correct usage\.export\.url/)
})

test('what the settings do not call is not asked for', async () => {
  const { found } = await doctor('console', CONSOLE)
  expect([...found.keys()]).not.toEqual(expect.arrayContaining(['webhook']))
  expect([...found.keys()]).not.toEqual(expect.arrayContaining(['leak reports']))
})
