import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { connect } from 'node:http2'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { keptCases } from '../fuzz/kept-cases.ts'
import { AMBIGUOUS, headFor } from '../support/ambiguous-framing.ts'
import { assertionKeyPem } from '../support/assertion-keys.ts'
import { CHECK_PROXIES, RunningProxy } from '../support/check-proxies.ts'
import { AMBIGUOUS_QUERIES, BASE, NO_ROUTE, OTHER_WORKSPACE } from '../support/hostile-targets.ts'
import { type Listening, startPostern } from '../support/postern-process.ts'
import { exchange, field, get, RawClient } from '../support/raw-client.ts'
import { has } from '../support/tools.ts'
import { type IssuedKey, startWorld, type World } from '../support/world.ts'

const PATH = `${BASE}/ws_1`
const FILES = `${PATH}/files`
/** The only targets that the key of these tests may reach, among those that they send. */
const PERMITTED = new Set([PATH, FILES, `${FILES}?limit=5`, `${FILES}?limit=7`])
/** Time after which a proxy that waits for the rest of a request is left alone. */
const PATIENCE_MS = 1000
/** The upstream of these tests takes it for a request of its own. */
const EMPTY_CHUNKED_BODY = '0\r\n\r\n'
/** Envoy waits a second before it closes a connection. */
const FRAMING_MS = 30_000 + AMBIGUOUS.length * PATIENCE_MS
/** Envoy is installed, and Traefik built, once per machine. */
const INSTALL_MS = 1_800_000

let world: World
let key: IssuedKey

beforeAll(async () => {
  world = await startWorld()
  key = await world.issue()
})
afterAll(() => world?.stop())

const lines = (request: string) => request.split('\r\n').slice(1)
const valuesOf = (request: string, name: string) =>
  lines(request).flatMap(line =>
    line.toLowerCase().startsWith(`${name}:`) ? [line.slice(name.length + 1).trim()] : [],
  )

/** `sub` of a JWT, without verifying it. */
function subjectOf(assertion = ''): unknown {
  const claims = Buffer.from(assertion.split('.')[1] ?? '', 'base64url').toString()
  return claims.startsWith('{') ? (JSON.parse(claims) as { sub?: unknown }).sub : undefined
}

/** What is wrong with a request that reached the upstream. */
function faultsOf(request: string): string[] {
  const [method, target = '', version] = request.split('\r\n', 1)[0]?.split(' ') ?? []
  const faults: string[] = []
  if (method !== 'GET' || !PERMITTED.has(target) || !version?.startsWith('HTTP/1.'))
    faults.push('not a permitted request')
  if (request.includes(key.secret)) faults.push('holds the key')
  if (valuesOf(request, 'authorization').length > 0) faults.push('has a credential')
  const identity = {
    'x-postern-workspace-id': 'ws_1',
    'x-postern-key-id': key.id,
    'x-postern-scopes': 'files:read workspace:read',
  }
  for (const [name, value] of Object.entries(identity)) {
    if (valuesOf(request, name).join() !== value) faults.push(`has not exactly one true ${name}`)
  }
  const assertions = valuesOf(request, 'x-postern-assertion')
  if (assertions.length !== 1 || subjectOf(assertions[0]) !== key.id)
    faults.push('has not exactly one assertion of its key')
  const others = lines(request).filter(
    line =>
      /^x[-_.]postern/i.test(line) && !/^x-postern-(?:workspace-id|key-id|scopes|assertion):/i.test(line),
  )
  if (others.length > 0) faults.push('has another spelling of an identity header')
  if (valuesOf(request, 'connection').some(value => /postern/i.test(value)))
    faults.push('names an identity header in Connection')
  return faults.map(fault => `${fault}: ${request.slice(0, 300)}`)
}

describe.each(CHECK_PROXIES)('behind $kind', proxy => {
  describe.skipIf(!has(proxy.tool))(`with the configuration of docs/behind/check-${proxy.kind}.md`, () => {
    const directory = mkdtempSync(join(tmpdir(), `postern-check-${proxy.kind}-`))
    let gateway: Listening
    let running: RunningProxy

    beforeAll(async () => {
      const keyFile = join(directory, 'assertion.pem')
      writeFileSync(keyFile, assertionKeyPem())
      gateway = await startPostern('gateway', {
        ...world.env,
        POSTERN_GATEWAY_CHECK_PORT: '0',
        POSTERN_GATEWAY_CHECK_HOST: '127.0.0.1',
        POSTERN_GATEWAY_CHECK_PROXY: proxy.kind,
        POSTERN_GATEWAY_TRUSTED_PROXIES: '127.0.0.1/32',
        POSTERN_UPSTREAM_ASSERTION_KEY_FILES: keyFile,
        POSTERN_UPSTREAM_ASSERTION_ISSUER: 'gateway',
        POSTERN_UPSTREAM_ASSERTION_AUDIENCE: 'files',
      })
      const { urls } = gateway
      running = await RunningProxy.start(proxy, directory, {
        check: new URL(urls.check).host,
        gateway: new URL(urls.gateway).host,
        upstream: new URL(world.upstream.url).host,
      })
    }, INSTALL_MS)
    afterAll(async () => {
      await running?.stop()
      await gateway?.process.stop()
      rmSync(directory, { recursive: true, force: true })
    })
    beforeEach(() => world.upstream.reset())

    const send = (bytes: string) => exchange(running.url, bytes)

    /** Sends each text on a connection of its own, with a request behind it in front of which a smuggled one would appear. */
    async function sendAll(cases: readonly (readonly [name: string, bytes: string])[]): Promise<string[]> {
      const faults: string[] = []
      let forwarded = 0
      let closedEarly = 0
      for (const [name, bytes] of cases) {
        world.upstream.reset()
        const client = new RawClient(running.url)
        client.send(bytes + get(`${FILES}?limit=7`, key.secret, 'Connection: close'))
        const closed = Promise.withResolvers<void>()
        client.socket.once('close', () => closed.resolve())
        const patience = setTimeout(closed.resolve, PATIENCE_MS)
        await closed.promise
        clearTimeout(patience)
        client.end()
        const requests = world.upstream.requests.filter(
          text => proxy.forwardsEmptyBodies !== true || text !== EMPTY_CHUNKED_BODY,
        )
        forwarded += requests.length
        if (proxy.closesAfter400 === true && client.received.includes('HTTP/1.1 400')) closedEarly += 1
        faults.push(...requests.flatMap(faultsOf).map(fault => `${name}: ${fault}`))
      }
      // Otherwise no case would show anything: the requests behind them are permitted.
      expect(forwarded + closedEarly).toBeGreaterThan(cases.length / 3)
      return faults
    }

    test('a permitted request reaches the upstream with the identity of its key alone', async () => {
      const forged = [
        'X-Postern-Workspace-Id: ws_2',
        'x-postern-key-id: key_2',
        'Connection: X-Postern-Workspace-Id',
      ]
      const answer = await send(get(`${FILES}?limit=5`, key.secret, 'X-Request-Id: own-id', ...forged))
      expect([answer.status, answer.body]).toEqual([200, '{"id":"ws_1"}'])
      expect(world.upstream.requests).toHaveLength(1)
      expect(world.upstream.requests.flatMap(faultsOf)).toEqual([])
      expect(valuesOf(world.upstream.requests[0] ?? '', 'x-request-id')).toEqual(['own-id'])
    })

    test('a denial has the status, body and headers of the gateway itself', async () => {
      const scoped = await world.issue({ scopes: ['workspace:read'] })
      const requests = [
        get(PATH),
        get(PATH, 'wsk_wrong'),
        get(`${BASE}/ws_2`, key.secret),
        get(FILES, scoped.secret),
        get(`${FILES}?limit=x`, key.secret),
        get(PATH, key.secret).replace('GET', 'POST'),
        get(`/api/v1/nowhere`),
      ]
      for (const bytes of requests) {
        const [ours, theirs] = [await exchange(gateway.urls.gateway, bytes), await send(bytes)]
        expect([theirs.status, theirs.body]).toEqual([ours.status, ours.body])
        for (const name of ['content-type', 'www-authenticate', 'allow', 'retry-after', 'cache-control']) {
          expect([
            name,
            theirs.fields.filter(([other]) => other.toLowerCase() === name).map(([, value]) => value),
          ]).toEqual([
            name,
            ours.fields.filter(([other]) => other.toLowerCase() === name).map(([, value]) => value),
          ])
        }
        expect(field(theirs, 'x-request-id')).toBeDefined()
      }
      expect(world.upstream.requests).toEqual([])
    })

    test('a path that a server could read in another way is refused, or forwarded as it was checked', async () => {
      const targets = [
        ...NO_ROUTE,
        ...OTHER_WORKSPACE.flatMap(name => [`${BASE}/${name}`, `${BASE}/${name}/files?limit=5`]),
      ]
      expect(await sendAll(targets.map(target => [target, get(target, key.secret)]))).toEqual([])
    })

    test('so is a query', async () => {
      const queries = [
        ...AMBIGUOUS_QUERIES,
        '?',
        `?${key.secret}`,
        `?limit=5&key=${key.secret}`,
        '?limit=5#',
        '??limit=5',
      ]
      expect(await sendAll(queries.map(query => [query, get(FILES + query, key.secret)]))).toEqual([])
    })

    test('so is a request with ambiguous framing', { timeout: FRAMING_MS }, async () => {
      expect(await sendAll(AMBIGUOUS.map(([name, bytes]) => [name, bytes(key.secret)]))).toEqual([])
    })

    test('so is each request that fuzzing has found', async () => {
      const kept = keptCases.flatMap(([name, one]) =>
        one.kind === 'request' ? [[name, one.bytes.replaceAll('{key}', key.secret)] as const] : [],
      )
      expect(await sendAll(kept)).toEqual([])
    })

    test('no header of a client steers the decision, or brings the key or a false identity to the upstream', async () => {
      const fields = [
        [`X-Original-URI: ${PATH}`],
        [`X-Original-URI: ${PATH}`, `X-Original-URI: ${PATH}`],
        ['X-Original-Method: GET', `X-Forwarded-Uri: ${PATH}`, 'X-Forwarded-Method: GET'],
        ['Connection: X-Original-URI, X-Forwarded-Uri, X-Forwarded-Method, X-Original-Method, Authorization'],
        ['X-Postern-Assertion: forged', 'X-Postern-Scopes: admin'],
        ['X_Postern_Workspace_Id: ws_2'],
        ['X.Postern.Key.Id: ws_2'],
        ['X-Postern_Workspace-Id: ws_2'],
        [`Cookie: session=${key.secret}`],
        [`X-Api-Key: ${key.secret}`],
        [`Referer: http://gw/?key=${key.secret}`],
        [`Authorization: Bearer ${key.secret}`],
        ['Upgrade: websocket', 'Connection: Upgrade'],
        ['X-HTTP-Method-Override: DELETE'],
        [`X-Rewrite-URL: ${BASE}/ws_2`],
      ]
      const cases = fields.flatMap(more => [
        [more.join(', '), headFor(key.secret, ...more)] as const,
        [
          `${more.join(', ')} to ws_2`,
          headFor(key.secret, ...more).replace('ws_1 HTTP', 'ws_2 HTTP'),
        ] as const,
        [`HEAD ${more.join(', ')}`, headFor(key.secret, ...more).replace('GET', 'DELETE')] as const,
      ])
      expect(await sendAll(cases)).toEqual([])
    })

    test('the address of the client is the one that the proxy sees, not one that the client names', async () => {
      const elsewhere = await world.issue({ allowedCidrs: ['192.0.2.0/24'] })
      const answer = await send(get(PATH, elsewhere.secret, 'X-Forwarded-For: 192.0.2.1'))
      expect([answer.status, (JSON.parse(answer.body) as { code: string }).code]).toEqual([
        403,
        'address_not_allowed',
      ])
      expect(world.upstream.requests).toEqual([])
    })

    test('the description of a key comes from the gateway', async () => {
      const answer = await send(get('/api/v1/auth', key.secret))
      expect([answer.status, JSON.parse(answer.body)]).toMatchObject([200, { keyId: key.id }])
      expect(world.upstream.requests).toEqual([])
    })

    if (proxy.speaksHttp2 === true)
      test('an HTTP/2 client gets the same decisions', async () => {
        const statuses = [await statusOverHttp2(`${FILES}?limit=5`), await statusOverHttp2(`${PATH}/../ws_2`)]
        expect(statuses).toEqual([200, 404])
        expect(world.upstream.requests.flatMap(faultsOf)).toEqual([])
      })

    async function statusOverHttp2(path: string): Promise<unknown> {
      const client = connect(running.url)
      const request = client.request({ ':path': path, authorization: `Bearer ${key.secret}` })
      const [headers] = (await once(request, 'response')) as [Record<string, unknown>]
      client.destroy()
      return headers[':status']
    }

    test('without the gateway nothing is forwarded', async () => {
      await gateway.process.stop()
      const answer = await send(get(PATH, key.secret))
      expect(answer.status).toBeGreaterThanOrEqual(500)
      expect(world.upstream.requests).toEqual([])
    })
  })
})
