import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { JAVA, OFFERS } from '../support/offers.ts'
import { exchange, field, get, RawClient } from '../support/raw-client.ts'
import { runs } from '../support/runs.ts'
import { type IssuedKey, startWorld, type World } from '../support/world.ts'

const WORKSPACE = '/api/v1/workspaces/ws_1'
let world: World
let key: IssuedKey
beforeAll(async () => {
  const check = { POSTERN_GATEWAY_CHECK_HOST: '127.0.0.1', POSTERN_GATEWAY_CHECK_PORT: '0' }
  world = await startWorld({ ...check, POSTERN_GATEWAY_CHECK_PROXY: 'nginx' })
  key = await world.issue()
})
afterAll(() => world.stop())

const admin = () => `Authorization: Bearer ${world.cliEnv['POSTERN_ADMIN_TOKEN']}`

/** Each listener, with a request that it answers. */
function listeners() {
  const { gateway, console } = world
  const internal = `Authorization: Bearer ${world.env['POSTERN_KEY_SERVICE_TOKEN']}`
  const original = ['X-Original-Method: GET', `X-Original-URI: ${WORKSPACE}`]
  const digest = '0'.repeat(64)
  return [
    {
      name: 'gateway',
      url: gateway.urls.gateway,
      request: (...more: string[]) => get(WORKSPACE, key.secret, ...more),
    },
    {
      name: 'check',
      url: gateway.urls.check,
      request: (...more: string[]) => get('/', key.secret, ...original, ...more),
    },
    {
      name: 'console',
      url: console.urls.console,
      request: (...more: string[]) => get('/admin/v1/workspaces', undefined, admin(), ...more),
    },
    {
      name: 'internal',
      url: console.urls.internal,
      request: (...more: string[]) => get(`/internal/v1/keys/${digest}`, undefined, internal, ...more),
    },
    { name: 'ops', url: gateway.urls.ops, request: (...more: string[]) => get('/livez', undefined, ...more) },
    {
      name: 'ops of the console',
      url: console.urls.ops,
      request: (...more: string[]) => get('/livez', undefined, ...more),
    },
  ] as const
}

/** At all listeners at once, each on its own connection. */
async function atEach(act: (listener: ReturnType<typeof listeners>[number]) => Promise<void>): Promise<void> {
  await Promise.all(listeners().map(act))
}

describe.each(OFFERS)('an offer is ignored: %s', (_, lines) => {
  test('at every listener, and the bytes behind it are the next request', async () => {
    await atEach(async ({ name, url, request }) => {
      const { status } = await exchange(url, request())
      expect([name, status]).toEqual([name, name === 'internal' ? 404 : 200])
      const client = new RawClient(url)
      client.send(request(...lines) + request(...lines) + request() + request('Connection: close'))
      const answers = await client.untilClosed()
      expect([name, ...answers.map(answer => answer.status)]).toEqual([name, status, status, status, status])
      expect(answers.map(answer => field(answer, 'upgrade'))).toEqual(answers.map(() => undefined))
    })
  })

  test('wherever the bytes are split', async () => {
    await atEach(async ({ name, url, request }) => {
      const { status } = await exchange(url, request())
      const bytes = request(...lines) + request()
      const client = new RawClient(url)
      let sent = 0
      for (let cut = 1; cut < bytes.length; cut += runs(11, 1)) {
        client.send(bytes.slice(0, cut))
        await new Promise(resolve => setImmediate(resolve))
        client.send(bytes.slice(cut))
        sent += 2
        const answers = await client.answers(sent)
        expect([name, cut, ...answers.slice(-2).map(answer => answer.status)]).toEqual([
          name,
          cut,
          status,
          status,
        ])
      }
      client.end()
    })
  })
})

test.each([
  ['an expectation that is not 100-continue', 'Expect: 200-ok'],
  ['more than one expectation', 'Expect: 100-continue, x'],
  ['text before the expectation', 'Expect: y 100-continue'],
])('%s gets 417 at every listener, and the connection closes', async (_, line) => {
  await atEach(async ({ name, url, request }) => {
    const client = new RawClient(url)
    client.send(request(line) + request())
    const answers = await client.untilClosed()
    const [answer] = answers
    // nginx passes on nothing but 401 and 403 of a check.
    const seen =
      name === 'check' && answer !== undefined ? field(answer, 'x-postern-status') : String(answer?.status)
    expect([name, answers.length, seen]).toEqual([name, 1, '417'])
  })
})

const NEW_KEY = '{"name":"offer","scopes":["files:read"]}'
const chunked = `${NEW_KEY.length.toString(16)}\r\n${NEW_KEY}\r\n0\r\n\r\n`
function issue(body: string, ...lines: string[]): string {
  const head = [
    'POST /admin/v1/workspaces/ws_1/keys HTTP/1.1',
    'Host: a',
    'Content-Type: application/json',
    ...lines,
  ]
  return `${head.join('\r\n')}\r\n\r\n${body}`
}

test('a body with an offer to upgrade ends where its framing says, wherever the bytes are split', async () => {
  const next = get('/admin/v1/whoami', undefined, admin())
  const posts = [
    issue(NEW_KEY, admin(), ...JAVA, `Content-Length: ${NEW_KEY.length}`),
    issue(chunked, admin(), ...JAVA, 'Transfer-Encoding: chunked'),
  ]
  for (const post of posts) {
    const bytes = post + next
    const client = new RawClient(world.console.urls.console)
    let sent = 0
    for (let cut = 1; cut < bytes.length; cut += runs(41, 3)) {
      client.send(bytes.slice(0, cut))
      await new Promise(resolve => setImmediate(resolve))
      client.send(bytes.slice(cut))
      sent += 2
      const answers = await client.answers(sent)
      expect([cut, ...answers.slice(-2).map(({ status }) => status)]).toEqual([cut, 201, 200])
    }
    client.end()
  }
})

test('the connection stays open after a request with Expect: 100-continue whose body was sent at once', async () => {
  const post = issue(NEW_KEY, admin(), 'Expect: 100-continue', `Content-Length: ${NEW_KEY.length}`)
  const client = new RawClient(world.console.urls.console)
  client.send(post + post + get('/admin/v1/whoami', undefined, admin(), 'Connection: close'))
  // A 100 may be sent or not, depending on when the body arrives.
  const statuses = (await client.untilClosed()).map(({ status }) => status).filter(status => status !== 100)
  expect(statuses).toEqual([201, 201, 200])
})

test('a client that waits for a 100 is asked for its body only if it is authenticated', async () => {
  const lines = ['Expect: 100-continue', `Content-Length: ${NEW_KEY.length}`]
  const admitted = new RawClient(world.console.urls.console)
  admitted.send(issue('', admin(), ...lines))
  expect((await admitted.answers(1)).map(({ status }) => status)).toEqual([100])
  admitted.send(NEW_KEY + get('/admin/v1/whoami', undefined, admin()))
  expect((await admitted.answers(3)).map(({ status }) => status)).toEqual([100, 201, 200])
  admitted.end()
  const rejected = new RawClient(world.console.urls.console)
  rejected.send(issue('', 'Authorization: Bearer wrong', ...lines))
  expect((await rejected.untilClosed()).map(({ status }) => status)).toEqual([401])
})
