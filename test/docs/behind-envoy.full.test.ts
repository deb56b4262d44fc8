import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { type IncomingMessage, request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { parse, parseAllDocuments } from 'yaml'
import { Envoy } from '../support/envoy.ts'
import { freePort } from '../support/free-port.ts'
import { jsonAnswer } from '../support/recording-upstream.ts'
import { has, PYTHON } from '../support/tools.ts'
import { type IssuedKey, startWorld, type World } from '../support/world.ts'

const page = readFileSync(new URL('../../docs/behind/envoy-gateway.md', import.meta.url), 'utf8')
const [chart = '', objects = ''] = [...page.matchAll(/^```yaml\n([\s\S]*?)^```$/gm)].map(
  ([, block = '']) => block,
)
const { config } = parse(chart) as { config: { gateway: { keepAliveTimeoutMs: number } } }
const policyOf = <Spec>(kind: string): Spec => {
  const found = parseAllDocuments(objects).map(document => document.toJS() as { kind: string; spec: unknown })
  return found.find(object => object.kind === kind)?.spec as Spec
}
const { path } = policyOf<{ path: { escapedSlashesAction: string; disableMergeSlashes: boolean } }>(
  'ClientTrafficPolicy',
)
const { timeout, retry } = policyOf<{
  timeout: {
    tcp: { connectTimeout: string }
    http: { connectionIdleTimeout: string; requestTimeout: string }
  }
  retry: { numRetries: number; retryOn: { triggers: string[] } }
}>('BackendTrafficPolicy')

/** As Envoy Gateway writes the fields of its policies. */
const SLASHES: Readonly<Record<string, string>> = { KeepUnchanged: 'KEEP_UNCHANGED' }
const TYPES = 'type.googleapis.com/envoy.extensions'

function configurationOf(port: number, gateway: URL): object {
  const addressOf = (portValue: number) => ({
    address: { socket_address: { address: '127.0.0.1', port_value: portValue } },
  })
  const manager = {
    '@type': `${TYPES}.filters.network.http_connection_manager.v3.HttpConnectionManager`,
    stat_prefix: 'public',
    use_remote_address: true,
    normalize_path: true,
    merge_slashes: !path.disableMergeSlashes,
    path_with_escaped_slashes_action: SLASHES[path.escapedSlashesAction],
    route_config: {
      virtual_hosts: [
        {
          name: 'api',
          domains: ['*'],
          routes: [
            {
              match: { prefix: '/' },
              route: {
                cluster: 'gateway',
                timeout: timeout.http.requestTimeout,
                retry_policy: { retry_on: retry.retryOn.triggers.join(), num_retries: retry.numRetries },
              },
            },
          ],
        },
      ],
    },
    http_filters: [{ name: 'router', typed_config: { '@type': `${TYPES}.filters.http.router.v3.Router` } }],
  }
  const filters = [{ name: 'http', typed_config: manager }]
  const endpoint = { endpoint: addressOf(Number(gateway.port)) }
  return {
    static_resources: {
      listeners: [{ name: 'public', ...addressOf(port), filter_chains: [{ filters }] }],
      clusters: [
        {
          name: 'gateway',
          connect_timeout: timeout.tcp.connectTimeout,
          load_assignment: { cluster_name: 'gateway', endpoints: [{ lb_endpoints: [endpoint] }] },
          typed_extension_protocol_options: {
            'envoy.extensions.upstreams.http.v3.HttpProtocolOptions': {
              '@type': `${TYPES}.upstreams.http.v3.HttpProtocolOptions`,
              common_http_protocol_options: { idle_timeout: timeout.http.connectionIdleTimeout },
              explicit_http_config: { http_protocol_options: {} },
            },
          },
        },
      ],
    },
  }
}

const INSTALL_MS = 300_000

describe.skipIf(!has(PYTHON))('behind Envoy, with the policies of docs/behind/envoy-gateway.md', () => {
  const directory = mkdtempSync(join(tmpdir(), 'postern-envoy-'))
  let world: World
  let envoy: Envoy
  let port: number
  let key: IssuedKey

  beforeAll(async () => {
    world = await startWorld({
      POSTERN_GATEWAY_TRUSTED_PROXIES: '127.0.0.1/32',
      POSTERN_GATEWAY_KEEP_ALIVE_TIMEOUT_MS: String(config.gateway.keepAliveTimeoutMs),
    })
    key = await world.issue()
    port = await freePort()
    const gateway = new URL(world.gateway.urls.gateway)
    envoy = await Envoy.start(directory, configurationOf(port, gateway), `http://127.0.0.1:${port}`)
  }, INSTALL_MS)
  afterAll(async () => {
    await envoy?.stop()
    await world?.stop()
    rmSync(directory, { recursive: true, force: true })
  })
  beforeEach(() => world.upstream.reset())

  /** From an address that is not a trusted proxy. */
  async function get(target: string, headers: Readonly<Record<string, string>> = {}) {
    const authorization = `Bearer ${key.secret}`
    const options = { hostname: '127.0.0.1', port, path: target, localAddress: '127.0.0.2' }
    const client = request({ ...options, headers: { authorization, ...headers } })
    client.end()
    const [response] = (await once(client, 'response')) as [IncomingMessage]
    const json = JSON.parse(await text(response)) as unknown
    return { status: response.statusCode, headers: response.headers, json }
  }

  test('the gateway takes the address that Envoy sees for that of the client', async () => {
    const { secret } = await world.issue({ allowedCidrs: ['192.0.2.0/24'] })
    const forged = {
      'x-forwarded-for': '192.0.2.9',
      'x-real-ip': '192.0.2.9',
      authorization: `Bearer ${secret}`,
    }
    expect(await get('/api/v1/workspaces/ws_1', forged)).toMatchObject({
      status: 403,
      json: { code: 'address_not_allowed', error: expect.stringContaining('127.0.0.2') },
    })
    expect(await get('/api/v1/workspaces/ws_1', { 'x-forwarded-for': '192.0.2.9' })).toMatchObject({
      status: 200,
    })
    // Envoy adds to what the client said: the page warns of the first address.
    const forwardedFor = /^x-forwarded-for: (.*)$/im.exec(world.upstream.requests[0] ?? '')?.[1]?.trim()
    expect(forwardedFor).toBe('192.0.2.9,127.0.0.2, 127.0.0.1')
  })

  test.each(['/api/v1/workspaces/ws_1%2ffiles', '/api/v1//workspaces/ws_1'])(
    'the gateway rejects an ambiguous path as the client sent it: %s',
    async target => {
      expect(await get(target)).toMatchObject({ status: 404, json: { code: 'not_found' } })
      expect(world.upstream.requests).toEqual([])
    },
  )

  test('Envoy removes dot segments before the gateway sees the path', async () => {
    expect(await get('/api/v1/workspaces/ws_2/../ws_1')).toMatchObject({ status: 200 })
    expect(await get('/api/v1/workspaces/ws_1/../ws_2')).toMatchObject({ status: 404 })
  })

  test('Envoy does not repeat a request that got 503', async () => {
    world.upstream.answer = () => jsonAnswer(503, '{}', 'Retry-After: 7')
    const { status, headers } = await get('/api/v1/workspaces/ws_1')
    expect([status, headers['retry-after']]).toEqual([503, '7'])
    expect(world.upstream.requests).toHaveLength(1)
  })

  test('Envoy closes an idle connection before the gateway does', () => {
    const seconds = Number(timeout.http.connectionIdleTimeout.replace('s', ''))
    expect(seconds * 1000).toBeLessThan(config.gateway.keepAliveTimeoutMs)
  })
})
