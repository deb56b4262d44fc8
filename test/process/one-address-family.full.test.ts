import { once } from 'node:events'
import { createServer } from 'node:http'
import { fileURLToPath } from 'node:url'
import { describe, expect, onTestFinished, test } from 'vitest'
import { Parts } from '../support/parts.ts'
import { PROGRAM } from '../support/postern-process.ts'
import { exchange, get } from '../support/raw-client.ts'
import { has, PYTHON } from '../support/tools.ts'
import { DEFAULT_HOSTS, readiness } from './starts.ts'

const LAUNCHER = fileURLToPath(new URL('../support/without-family.py', import.meta.url))

/** A service that listens on one family alone. @returns its port */
async function upstreamOn(address: string): Promise<number> {
  const server = createServer((_, response) => {
    response.setHeader('content-type', 'application/json').end('{"id":"ws_1"}')
  })
  server.listen(0, address)
  await once(server, 'listening')
  onTestFinished(() => void server.close())
  // A listening server on a port has an address that is an object.
  return (server.address() as { port: number }).port
}

describe.skipIf(!has(PYTHON))('a system without one family of addresses', () => {
  test.each([
    { missing: 'AF_INET6', host: '127.0.0.1', every: '0.0.0.0' },
    { missing: 'AF_INET', host: '[::1]', every: '[::]' },
  ])(
    'without $missing, gateway and console start with their defaults and serve the other family, Redis included',
    async ({ missing, host, every }) => {
      const launcher = ['python3', LAUNCHER, missing, process.execPath, ...PROGRAM]
      const parts = new Parts()
      onTestFinished(() => parts.stop())
      const redis = await parts.redis({ settings: ['--bind', '127.0.0.1', '::1'] })
      const upstream = await upstreamOn(host.replace(/[[\]]/g, ''))
      const common = {
        ...DEFAULT_HOSTS,
        POSTERN_REDIS_URL: `redis://${host}:${redis.port}`,
        POSTERN_CONSOLE_HOST: host,
      }
      const console = await parts.console({ ...common, POSTERN_DATABASE_URL: 'sqlite::memory:' }, launcher)
      const { port } = new URL(console.urls.internal)
      const urls = {
        POSTERN_KEY_SERVICE_URL: `http://${host}:${port}`,
        POSTERN_UPSTREAM_URL: `http://${host}:${upstream}`,
      }
      const gateway = await parts.gateway({ ...common, ...urls }, launcher)
      expect(new URL(gateway.urls.gateway).host).toBe(`${every}:${new URL(gateway.urls.gateway).port}`)
      const reachable = (url: string) => `http://${host}:${new URL(url).port}`
      expect((await readiness(reachable(gateway.urls.ops))).code).toBe(200)
      const key = { name: 'first', scopes: ['workspace:read'] }
      const secret = String((await parts.change(console, '/workspaces/ws_1/keys', key))['secret'])
      const answer = await exchange(reachable(gateway.urls.gateway), get('/api/v1/workspaces/ws_1', secret))
      expect(answer.status).toBe(200)
    },
  )
})
