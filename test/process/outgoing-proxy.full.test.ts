import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { afterAll, expect, onTestFinished, test } from 'vitest'
import { makeCertificates } from '../support/certificates.ts'
import { ForwardProxy } from '../support/forward-proxy.ts'
import { freePort } from '../support/free-port.ts'
import { Parts } from '../support/parts.ts'
import { runPostern } from '../support/postern-process.ts'
import { exchange, get } from '../support/raw-client.ts'
import { until } from '../support/until.ts'
import { UsageCollector } from '../support/usage-collector.ts'
import { SHARED } from './starts.ts'

/** The name of the certificate. It resolves nowhere: only the proxy finds it. */
const OUTSIDE = 'https://elsewhere.example'
const PASSWORD = 'proxy-password-of-the-tests'

const certificates = await makeCertificates()
afterAll(() => certificates.remove())

/** All that lies outside: an identity provider, a receiver of webhooks, GitHub's keys, a collector of traces. */
async function startOutside(): Promise<{ readonly port: number; readonly asked: Set<string> }> {
  const asked = new Set<string>()
  const metadata = {
    issuer: OUTSIDE,
    authorization_endpoint: `${OUTSIDE}/auth`,
    token_endpoint: `${OUTSIDE}/token`,
    jwks_uri: `${OUTSIDE}/jwks`,
    response_types_supported: ['code'],
    subject_types_supported: ['public'],
    id_token_signing_alg_values_supported: ['RS256'],
    code_challenge_methods_supported: ['S256'],
  }
  const server = createServer(certificates.misnamed, (request, response) => {
    asked.add(`${request.method} ${request.url}`)
    request.resume()
    response.setHeader('content-type', 'application/json')
    response.end(request.url?.startsWith('/.well-known') ? JSON.stringify(metadata) : '{}')
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  onTestFinished(() => void server.close())
  // A server on a port has an address that is an object.
  return { port: (server.address() as AddressInfo).port, asked }
}

test('sign-in, webhooks, keys of leak reports, usage export and traces take the proxy of the environment; upstream, key service and Redis do not', async () => {
  const parts = new Parts()
  onTestFinished(() => parts.stop())
  const proxy = await parts.own(await ForwardProxy.start())
  const outside = await startOutside()
  const collector = await parts.own(await UsageCollector.start())
  const redis = await parts.redis()
  const upstream = await parts.upstream()
  proxy.login = `gateway:${PASSWORD}`
  proxy.routes.set('elsewhere.example:443', outside.port)
  proxy.routes.set('collector.example:80', Number(new URL(collector.url).port))
  const address = proxy.url.replace('//', `//gateway:${PASSWORD}@`)
  const common = {
    HTTPS_PROXY: address,
    http_proxy: address,
    POSTERN_REDIS_URL: redis.url,
    NODE_EXTRA_CA_CERTS: certificates.caFile,
  }
  const port = await freePort()
  const console = await parts.console({
    ...common,
    POSTERN_DATABASE_URL: 'sqlite::memory:',
    POSTERN_CONSOLE_PORT: String(port),
    POSTERN_CONSOLE_PUBLIC_URL: `http://127.0.0.1:${port}`,
    POSTERN_CONSOLE_OIDC_ISSUER: OUTSIDE,
    POSTERN_CONSOLE_OIDC_CLIENT_ID: 'postern',
    POSTERN_CONSOLE_WEBHOOK_URL: `${OUTSIDE}/webhook`,
    POSTERN_CONSOLE_WEBHOOK_SECRET: randomBytes(32).toString('base64'),
    POSTERN_LEAKS_ENABLED: 'true',
    POSTERN_LEAKS_GITHUB_KEYS_URL: `${OUTSIDE}/keys`,
  })
  const gateway = await parts.gateway({
    ...common,
    POSTERN_KEY_SERVICE_URL: console.urls.internal,
    POSTERN_UPSTREAM_URL: upstream.url,
    POSTERN_TRACING_ENDPOINT: OUTSIDE,
    POSTERN_USAGE_REPORT_SECONDS: '1',
    POSTERN_USAGE_EXPORT_URL: 'http://collector.example/usage',
  })
  const start = await fetch(`${console.urls.console}/sign-in/start`, { redirect: 'manual' })
  expect([start.status, start.headers.get('location')]).toEqual([
    303,
    expect.stringMatching(`^${OUTSIDE}/auth`),
  ])
  const key = { name: 'first', scopes: ['workspace:read'] }
  const secret = String((await parts.change(console, '/workspaces/ws_1/keys', key))['secret'])
  const answer = await exchange(gateway.urls.gateway, get('/api/v1/workspaces/ws_1', secret))
  expect([answer.status, upstream.requests.length]).toEqual([200, 1])
  await fetch(`${console.urls.console}/leaks`, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      'github-public-key-identifier': 'a'.repeat(64),
      'github-public-key-signature': randomBytes(70).toString('base64'),
    },
    body: '[]',
  })
  const expected = ['GET /.well-known/openid-configuration', 'GET /keys', 'POST /v1/traces', 'POST /webhook']
  await until(
    'all of them arrive',
    async () => expected.every(request => outside.asked.has(request)) && collector.accepted.length > 0,
    30_000,
  )
  expect([...new Set(proxy.requests)].sort()).toEqual([
    'CONNECT elsewhere.example:443',
    'POST http://collector.example/usage',
  ])
  for (const { process } of [console, gateway]) expect(process.lines.join('\n')).not.toContain(PASSWORD)
})

test('a proxy that is none is a mistake at start, which names the variable and not its value', async () => {
  for (const name of ['HTTPS_PROXY', 'http_proxy']) {
    const exit = await runPostern(['gateway'], {
      ...SHARED,
      POSTERN_KEY_SERVICE_URL: 'http://127.0.0.1:1',
      POSTERN_UPSTREAM_URL: 'http://127.0.0.1:1',
      [name]: 'socks5://user:s3cret@proxy:1080',
    })
    expect(exit.code).toBe(78)
    expect(exit.stderr).toContain(`${name}: must be an http: or https: address of a proxy`)
    expect(exit.stderr + exit.stdout).not.toContain('s3cret')
  }
})
