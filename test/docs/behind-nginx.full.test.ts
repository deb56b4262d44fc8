import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { type IncomingMessage, request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { Nginx } from '../support/nginx.ts'
import { jsonAnswer } from '../support/recording-upstream.ts'
import { has, NGINX } from '../support/tools.ts'
import { type IssuedKey, startWorld, type World } from '../support/world.ts'

const page = readFileSync(new URL('../../docs/behind/ingress-nginx.md', import.meta.url), 'utf8')
const [chart, configMap] = [...page.matchAll(/^```yaml\n([\s\S]*?)^```$/gm)].map(([, block = '']) => block)
const { config, gateway } = parse(chart ?? '') as {
  config: { gateway: { keepAliveTimeoutMs: number } }
  gateway: { ingress: { annotations: Readonly<Record<string, string>> } }
}
const { data } = parse(configMap ?? '') as { data: Readonly<Record<string, string>> }
const keepAliveSeconds = Number(data['upstream-keepalive-timeout'])

/** The controller writes an annotation as the directive of that name; a time is in seconds. */
const directives = Object.entries(gateway.ingress.annotations).map(([name, value]) => {
  const directive = name.replace('nginx.ingress.kubernetes.io/', '').replaceAll('-', '_')
  return `${directive} ${value}${directive.endsWith('_timeout') ? 's' : ''}`
})

/** A deadline that the tests can wait for; the page's are far longer than those of the gateway. */
const HEADERS_TIMEOUT_MS = 300

describe.skipIf(!has(NGINX))('behind nginx, with the values of docs/behind/ingress-nginx.md', () => {
  const directory = mkdtempSync(join(tmpdir(), 'postern-nginx-'))
  let world: World
  let nginx: Nginx
  let key: IssuedKey

  beforeAll(async () => {
    world = await startWorld({
      POSTERN_GATEWAY_TRUSTED_PROXIES: '127.0.0.1/32',
      POSTERN_GATEWAY_KEEP_ALIVE_TIMEOUT_MS: String(config.gateway.keepAliveTimeoutMs),
      POSTERN_UPSTREAM_HEADERS_TIMEOUT_MS: String(HEADERS_TIMEOUT_MS),
    })
    key = await world.issue()
    nginx = await Nginx.start(directory, world.gateway.urls.gateway, {
      directives,
      keepAliveSeconds,
    })
  })
  afterAll(async () => {
    await nginx?.stop()
    await world?.stop()
    rmSync(directory, { recursive: true, force: true })
  })
  beforeEach(() => world.upstream.reset())

  /** From an address that is not a trusted proxy. */
  async function get(path: string, headers: Readonly<Record<string, string>> = {}) {
    const { hostname, port } = new URL(nginx.url)
    const authorization = `Bearer ${key.secret}`
    const client = request({
      hostname,
      port,
      path,
      localAddress: '127.0.0.2',
      headers: { authorization, ...headers },
    })
    client.end()
    const [response] = (await once(client, 'response')) as [IncomingMessage]
    return {
      status: response.statusCode,
      headers: response.headers,
      json: JSON.parse(await text(response)) as unknown,
    }
  }
  const seen = (name: string) =>
    new RegExp(`^${name}: (.*)$`, 'im').exec(world.upstream.requests[0] ?? '')?.[1]?.trim()

  test('the upstream receives the address of the client, and nothing that the client said of it', async () => {
    const forged = {
      'x-forwarded-for': '192.0.2.9',
      'x-real-ip': '192.0.2.9',
      'x-original-forwarded-for': '192.0.2.9',
    }
    expect(await get('/api/v1/workspaces/ws_1', forged)).toMatchObject({ status: 200 })
    expect(seen('x-forwarded-for')).toBe('127.0.0.2, 127.0.0.1')
    expect(world.upstream.requests[0]).not.toContain('192.0.2.9')
  })

  test('nginx and the gateway use one request id', async () => {
    const { headers } = await get('/api/v1/workspaces/ws_1')
    expect(headers['x-request-id']).toMatch(/^[0-9a-f]{32}$/)
    expect(seen('x-request-id')).toBe(headers['x-request-id'])
  })

  test.each([
    '/api/v1/workspaces/ws_1%2ffiles',
    '/api/v1/workspaces/ws_2/../ws_1',
    '/api/v1//workspaces/ws_1',
  ])('the gateway rejects an ambiguous path as the client sent it: %s', async path => {
    expect(await get(path)).toMatchObject({ status: 404, json: { code: 'not_found' } })
    expect(world.upstream.requests).toEqual([])
  })

  test('a slow upstream gets the JSON of the gateway, because its deadline ends first', async () => {
    world.upstream.hold = () => new Promise(() => {})
    expect(await get('/api/v1/workspaces/ws_1')).toMatchObject({
      status: 504,
      json: { code: 'upstream_timeout' },
    })
    expect(HEADERS_TIMEOUT_MS).toBeLessThan(
      Number(gateway.ingress.annotations['nginx.ingress.kubernetes.io/proxy-read-timeout']) * 1000,
    )
  })

  test('nginx does not repeat a request that got 503', async () => {
    world.upstream.answer = () => jsonAnswer(503, '{}', 'Retry-After: 7')
    const { status, headers } = await get('/api/v1/workspaces/ws_1')
    expect([status, headers['retry-after']]).toEqual([503, '7'])
    expect(world.upstream.requests).toHaveLength(1)
  })

  test('nginx closes an idle connection before the gateway does', () => {
    expect(keepAliveSeconds * 1000).toBeLessThan(config.gateway.keepAliveTimeoutMs)
  })
})
