import { expect, onTestFinished, test } from 'vitest'
import { startPostern } from '../support/postern-process.ts'
import { exchange, get } from '../support/raw-client.ts'
import { RecordingUpstream } from '../support/recording-upstream.ts'
import { ADMIN_TOKEN, DEFAULT_HOSTS, SHARED } from './starts.ts'

test('every listener of a gateway and a console takes connections of IPv4 and IPv6 by default, and IPv4 clients keep their IPv4 address', async () => {
  const upstream = await RecordingUpstream.start()
  const console = await startPostern('console', {
    ...SHARED,
    ...DEFAULT_HOSTS,
    // Outside of image and chart it is reachable from this machine alone.
    POSTERN_CONSOLE_HOST: '[::]',
    POSTERN_ADMIN_TOKEN: ADMIN_TOKEN,
    POSTERN_DATABASE_URL: 'sqlite::memory:',
  })
  const port = (url: string) => new URL(url).port
  const gateway = await startPostern('gateway', {
    ...SHARED,
    ...DEFAULT_HOSTS,
    POSTERN_GATEWAY_CHECK_PORT: '0',
    POSTERN_GATEWAY_CHECK_PROXY: 'nginx',
    POSTERN_GATEWAY_TRUSTED_PROXIES: '::1',
    POSTERN_KEY_SERVICE_URL: `http://[::1]:${port(console.urls.internal)}`,
    POSTERN_UPSTREAM_URL: upstream.url,
  })
  onTestFinished(async () => {
    await Promise.all([gateway.process.stop(), console.process.stop(), upstream.stop()])
  })
  const listeners = {
    gateway: [gateway.urls.gateway, '/api/v1/auth'],
    ops: [gateway.urls.ops, '/livez'],
    check: [gateway.urls.check, '/'],
    console: [console.urls.console, '/'],
    internal: [console.urls.internal, '/internal/v1/keys/lookup'],
    'ops of the console': [console.urls.ops, '/livez'],
  } as const
  for (const [name, [url, path]] of Object.entries(listeners)) {
    const statuses = []
    for (const host of ['127.0.0.1', '[::1]']) {
      const { status } = await exchange(`http://${host}:${port(url)}`, get(path))
      statuses.push(status)
    }
    expect([name, url.includes('[::]'), statuses[0]], name).toEqual([name, true, statuses[1]])
  }
  const issued = await fetch(`http://[::1]:${port(console.urls.console)}/admin/v1/workspaces/ws_1/keys`, {
    method: 'POST',
    headers: { authorization: `Bearer ${ADMIN_TOKEN}`, 'content-type': 'application/json' },
    body: '{"name":"first","scopes":["workspace:read"],"allowedCidrs":["127.0.0.0/8"]}',
  })
  const { secret } = (await issued.json()) as { secret: string }
  const ask = async (host: string, ...fields: string[]) => {
    const answer = await exchange(
      `http://${host}:${port(gateway.urls.gateway)}`,
      get('/api/v1/workspaces/ws_1', secret, ...fields),
    )
    return answer.status
  }
  expect(await ask('127.0.0.1')).toBe(200)
  expect(upstream.requests.at(-1)).toMatch(/^x-forwarded-for: 127\.0\.0\.1\r$/im)
  expect(await ask('[::1]')).toBe(403)
  expect(await ask('[::1]', 'X-Forwarded-For: ::ffff:127.0.0.9')).toBe(200)
  expect(await ask('127.0.0.1', 'X-Forwarded-For: 192.0.2.1')).toBe(200)
})
