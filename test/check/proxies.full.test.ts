import { once } from 'node:events'
import { connect } from 'node:http2'
import { expect, test } from 'vitest'
import { keptCases } from '../fuzz/kept-cases.ts'
import { AMBIGUOUS, headFor } from '../support/ambiguous-framing.ts'
import { FILES, PATH, PATIENCE_MS, valuesOf } from '../support/behind-proxy.ts'
import { AMBIGUOUS_QUERIES, BASE, NO_ROUTE, OTHER_WORKSPACE } from '../support/hostile-targets.ts'
import { OFFERS } from '../support/offers.ts'
import { exchange, field, get } from '../support/raw-client.ts'
import { describeEachProxy, shareWorld } from './behind-each-proxy.ts'

/** Envoy waits a second before it closes a connection. */
const FRAMING_MS = 30_000 + (AMBIGUOUS.length + OFFERS.length) * PATIENCE_MS

const shared = shareWorld()

describeEachProxy(shared, (proxy, behind) => {
  const send = (bytes: string) => exchange(behind().url, bytes)

  async function sendAll(cases: readonly (readonly [name: string, bytes: string])[]): Promise<string[]> {
    const { faults, telling } = await behind().sendAll(cases)
    // Otherwise no case would show anything: the requests behind them are permitted.
    expect(telling).toBeGreaterThan(cases.length / 3)
    return faults
  }

  test('a permitted request reaches the upstream with the identity of its key alone', async () => {
    const forged = [
      'X-Postern-Workspace-Id: ws_2',
      'x-postern-key-id: key_2',
      'Connection: X-Postern-Workspace-Id',
    ]
    const answer = await send(get(`${FILES}?limit=5`, shared().key.secret, 'X-Request-Id: own-id', ...forged))
    expect([answer.status, answer.body]).toEqual([200, '{"id":"ws_1"}'])
    expect(behind().upstream.requests).toHaveLength(1)
    expect(behind().faults()).toEqual([])
    expect(valuesOf(behind().upstream.requests[0] ?? '', 'x-request-id')).toEqual(['own-id'])
  })

  test('a denial has the status, body and headers of the gateway itself', async () => {
    const scoped = await shared().world.issue({ scopes: ['workspace:read'] })
    const requests = [
      get(PATH),
      get(PATH, 'wsk_wrong'),
      get(`${BASE}/ws_2`, shared().key.secret),
      get(FILES, scoped.secret),
      get(`${FILES}?limit=x`, shared().key.secret),
      get(PATH, shared().key.secret).replace('GET', 'POST'),
      get(`/api/v1/nowhere`),
    ]
    for (const bytes of requests) {
      const [ours, theirs] = [await exchange(behind().gateway.urls.gateway, bytes), await send(bytes)]
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
    expect(behind().upstream.requests).toEqual([])
  })

  test('a path that a server could read in another way is refused, or forwarded as it was checked', async () => {
    const targets = [
      ...NO_ROUTE,
      ...OTHER_WORKSPACE.flatMap(name => [`${BASE}/${name}`, `${BASE}/${name}/files?limit=5`]),
    ]
    expect(await sendAll(targets.map(target => [target, get(target, shared().key.secret)]))).toEqual([])
  })

  test('so is a query', async () => {
    const queries = [
      ...AMBIGUOUS_QUERIES,
      '?',
      `?${shared().key.secret}`,
      `?limit=5&key=${shared().key.secret}`,
      '?limit=5#',
      '??limit=5',
    ]
    expect(await sendAll(queries.map(query => [query, get(FILES + query, shared().key.secret)]))).toEqual([])
  })

  test('so is a request with ambiguous framing, or with an offer that the gateway ignores', {
    timeout: FRAMING_MS,
  }, async () => {
    const offers = OFFERS.map(([name, lines]) => [name, headFor(shared().key.secret, ...lines)] as const)
    const ambiguous = AMBIGUOUS.map(([name, bytes]) => [name, bytes(shared().key.secret)] as const)
    expect(await sendAll([...ambiguous, ...offers])).toEqual([])
  })

  test('so is each request that fuzzing has found', async () => {
    const kept = keptCases.flatMap(([name, one]) =>
      one.kind === 'request' ? [[name, one.bytes.replaceAll('{key}', shared().key.secret)] as const] : [],
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
      [`Cookie: session=${shared().key.secret}`],
      [`X-Api-Key: ${shared().key.secret}`],
      [`Referer: http://gw/?key=${shared().key.secret}`],
      [`Authorization: Bearer ${shared().key.secret}`],
      ['Upgrade: websocket', 'Connection: Upgrade'],
      ['X-HTTP-Method-Override: DELETE'],
      [`X-Rewrite-URL: ${BASE}/ws_2`],
    ]
    const cases = fields.flatMap(more => [
      [more.join(', '), headFor(shared().key.secret, ...more)] as const,
      [
        `${more.join(', ')} to ws_2`,
        headFor(shared().key.secret, ...more).replace('ws_1 HTTP', 'ws_2 HTTP'),
      ] as const,
      [`HEAD ${more.join(', ')}`, headFor(shared().key.secret, ...more).replace('GET', 'DELETE')] as const,
    ])
    expect(await sendAll(cases)).toEqual([])
  })

  test('the address of the client is the one that the proxy sees, not one that the client names', async () => {
    const elsewhere = await shared().world.issue({ allowedCidrs: ['192.0.2.0/24'] })
    const answer = await send(get(PATH, elsewhere.secret, 'X-Forwarded-For: 192.0.2.1'))
    expect([answer.status, (JSON.parse(answer.body) as { code: string }).code]).toEqual([
      403,
      'address_not_allowed',
    ])
    expect(behind().upstream.requests).toEqual([])
  })

  test('the description of a key comes from the gateway', async () => {
    const answer = await send(get('/api/v1/auth', shared().key.secret))
    expect([answer.status, JSON.parse(answer.body)]).toMatchObject([200, { keyId: shared().key.id }])
    expect(behind().upstream.requests).toEqual([])
  })

  if (proxy.speaksHttp2 === true)
    test('an HTTP/2 client gets the same decisions', async () => {
      const statuses = [await statusOverHttp2(`${FILES}?limit=5`), await statusOverHttp2(`${PATH}/../ws_2`)]
      expect(statuses).toEqual([200, 404])
      expect(behind().faults()).toEqual([])
    })

  async function statusOverHttp2(path: string): Promise<unknown> {
    const client = connect(behind().url)
    const request = client.request({ ':path': path, authorization: `Bearer ${shared().key.secret}` })
    const [headers] = (await once(request, 'response')) as [Record<string, unknown>]
    client.destroy()
    return headers[':status']
  }

  test('without the gateway nothing is forwarded', async () => {
    await behind().gateway.process.stop()
    const answer = await send(get(PATH, shared().key.secret))
    expect(answer.status).toBeGreaterThanOrEqual(500)
    expect(behind().upstream.requests).toEqual([])
  })
})
