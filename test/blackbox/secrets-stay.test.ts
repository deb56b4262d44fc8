import { randomBytes } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { OtlpReceiver } from '../support/otlp-receiver.ts'
import { Parts } from '../support/parts.ts'
import type { Listening } from '../support/postern-process.ts'
import { exchange, get, type RawAnswer } from '../support/raw-client.ts'
import { jsonAnswer, type RecordingUpstream } from '../support/recording-upstream.ts'
import type { RedisServer } from '../support/redis-server.ts'
import { until } from '../support/until.ts'

const WORKSPACE = '/api/v1/workspaces/ws_1'
const random = () => randomBytes(24).toString('base64url')

/** Secrets that must not appear in any output. */
const planted: Record<string, string> = {
  'admin token': random(),
  'key service token': random(),
  'signing secret': randomBytes(32).toString('base64'),
  'Redis password': random(),
}
/** Sent to the upstream with each request, and to no other place. */
const SERVICE_TOKEN = random()
/** A key in the wrong place, or another client's key: no output may contain it. */
const CANARY = `canary-${random()}`

const ISSUE = '{"name":"canaries","scopes":["workspace:read","files:read"]}'
/** With parts of the target that a client chooses. */
const ROUTES = [
  { name: 'workspace', path: '/api/v1/workspaces/{workspaceId}', scope: 'workspace:read' },
  {
    name: 'thing',
    path: '/api/v1/workspaces/{workspaceId}/things/{thingId}',
    scope: 'workspace:read',
    query: { cursor: { type: 'token', maxLength: 100 } },
  },
]
const outputs = new Map<string, string>()
const parts = new Parts()
let redis: RedisServer
let upstream: RecordingUpstream
let collector: OtlpReceiver
let console: Listening
let gateway: Listening
let databaseFolder: string

beforeAll(async () => {
  const password = planted['Redis password'] ?? ''
  redis = await parts.redis({
    settings: ['--user', 'planes', 'on', `>${password}`, '~*', '&*', '+@all'],
  })
  upstream = await parts.upstream()
  collector = await OtlpReceiver.start()
  const shared = {
    POSTERN_REDIS_URL: redis.url,
    POSTERN_REDIS_USERNAME: 'planes',
    POSTERN_REDIS_PASSWORD: password,
    POSTERN_KEY_SERVICE_TOKEN: planted['key service token'] ?? '',
    POSTERN_KEYS_SIGNING_SECRETS: planted['signing secret'] ?? '',
    POSTERN_LOG_LEVEL: 'trace',
  }
  const databaseUrl = await parts.sqlite()
  databaseFolder = dirname(databaseUrl.replace('sqlite:', ''))
  console = await parts.console({
    ...shared,
    POSTERN_ADMIN_TOKEN: planted['admin token'] ?? '',
    POSTERN_DATABASE_URL: databaseUrl,
  })
  gateway = await parts.gateway({
    ...shared,
    POSTERN_KEY_SERVICE_URL: console.urls.internal,
    POSTERN_UPSTREAM_URL: upstream.url,
    POSTERN_UPSTREAM_HEADERS: JSON.stringify({ 'X-Service-Token': SERVICE_TOKEN }),
    POSTERN_UPSTREAM_HEADERS_TIMEOUT_MS: '300',
    POSTERN_TRACING_ENDPOINT: collector.url,
    POSTERN_USAGE_REPORT_SECONDS: '0.2',
    POSTERN_ROUTES: JSON.stringify(ROUTES),
  })
})
afterAll(async () => {
  await parts.stop()
  collector.stop()
})

test('after a run in which everything fails once, no secret is in any output or store', async () => {
  const answers: RawAnswer[] = []
  const send = async (bytes: string) => answers.push(await exchange(gateway.urls.gateway, bytes))
  const keys = [await issue(), await issue(), await issue()]
  const [key = '', second = '', third = ''] = keys.map(({ secret }) => secret)
  for (const [index, { secret }] of keys.entries()) planted[`key ${index}`] = secret

  const mistaken = ['Cookie', 'Proxy-Authorization', 'Referer', 'X-Api-Key', 'X-Forwarded-For', 'Via', 'From']
  await send(get(WORKSPACE, key, ...mistaken.map(name => `${name}: ${CANARY}`)))
  await sendKeysInSecondPlaces(send, key, third)
  for (const target of [`/${key}`, `${WORKSPACE}/${key}`, `${WORKSPACE}?access_token=${key}&x=${CANARY}`]) {
    await send(get(target, key))
    await send(get(target))
  }
  await send(get(WORKSPACE, `${key}x`))
  await send(get(WORKSPACE, undefined, `Authorization: Basic ${Buffer.from(key).toString('base64')}`))
  await send(get(WORKSPACE, key, `Authorization: Bearer ${second}`))
  await send(`GET ${WORKSPACE} HTTP/1.1\r\nHost: ${CANARY}/\r\nAuthorization: Bearer ${key}\r\n\r\n`)
  await send(`GET ${WORKSPACE} HTTP/1.1\r\nHost: gw\r\nAuthorization: Bearer ${key}\r\n${CANARY}\r\n\r\n`)
  await failInEveryWay(() => send(get(WORKSPACE, second)))
  await administer(keys)
  await send(get(WORKSPACE, third))
  await redis.kill()
  await send(get(WORKSPACE, second))
  await fetch(`${gateway.urls.ops}/metrics`)
  console.process.child.kill('SIGSTOP')
  await send(get(WORKSPACE, await unknownKey()))
  console.process.child.kill('SIGCONT')
  await redis.revive()
  await until('Redis is in use again', async () => (await readiness()).includes('"connected"'))
  await send(get(WORKSPACE, second))

  await collect(answers)
  for (const [output, text] of outputs) expect([output, text.length > 0]).toEqual([output, true])
  expect(leaks()).toEqual([])
  // The search must be able to find them.
  outputs.set('control', `${CANARY} ${Buffer.from(SERVICE_TOKEN).toString('base64')} ${key}`)
  expect(leaks()).toEqual(['key 0 in control', 'service token in control', 'canary in control'])
})

/** Puts the request's own key and another key in every field that is forwarded, logged or controls tracing. */
async function sendKeysInSecondPlaces(
  send: (bytes: string) => Promise<unknown>,
  key: string,
  other: string,
): Promise<void> {
  const served = upstream.requests.length
  for (const stray of [key, other]) {
    for (const field of [
      ...['X-Request-Id', 'User-Agent', 'If-None-Match', 'If-Modified-Since', 'Accept', 'Accept-Encoding'],
      ...['Accept-Language', 'traceparent', 'tracestate', 'X-Forwarded-For', 'X-Forwarded-Host'],
    ]) {
      await send(get(WORKSPACE, key, `${field}: ${stray}`))
      await send(get(WORKSPACE, key, `${field}: a`, `${field}: "b ${stray}/c"`))
    }
    await send(`GET ${WORKSPACE} HTTP/1.1\r\nHost: ${stray}\r\nAuthorization: Bearer ${key}\r\n\r\n`)
  }
  // Rejected requests are logged, too.
  const outside = planted['admin token'] ?? ''
  await send(get(WORKSPACE, undefined, `X-Request-Id: ${key}`))
  await send(get('/', `${key}x`, `X-Request-Id: ${key}x`))
  await send(get(WORKSPACE, outside, `X-Request-Id: ${outside}`))
  await send(get(`${WORKSPACE}/things/${other}`, key))
  await send(get(`${WORKSPACE}/things/1?cursor=${other}`, key))
  // A header field with a key is dropped; a target with a key is rejected.
  expect(upstream.requests).toHaveLength(served + 46)
}

/** Makes an upstream fail in every way, each time with every secret it knows in the response. */
async function failInEveryWay(send: () => Promise<unknown>): Promise<void> {
  const inside = `{"stack":"${CANARY}","error":"${CANARY}"}`
  for (const bytes of [
    jsonAnswer(500, inside, `Server: ${CANARY}`),
    jsonAnswer(503, inside),
    jsonAnswer(302, inside, `Location: http://${CANARY}/`),
    jsonAnswer(401, inside, `WWW-Authenticate: Basic realm="${CANARY}"`),
    jsonAnswer(404, inside),
    `HTTP/1.1 200 ${CANARY}\r\nContent-Length: 5, 6\r\n\r\n${CANARY}`,
    `${CANARY}\r\n\r\n`,
  ]) {
    upstream.answer = () => bytes
    await send()
  }
  upstream.hold = () => new Promise(() => {})
  await send()
  upstream.hold = () => undefined
  upstream.answer = () => jsonAnswer(200, '{}')
}

/** Successful and failing admin API calls, each with a secret where one might be recorded. */
async function administer(keys: readonly { id: string; secret: string }[]): Promise<void> {
  const [first, second] = keys
  const calls: [
    string,
    string,
    body?: string | undefined,
    token?: string | undefined,
    requestId?: string | undefined,
  ][] = [
    ['POST', `/keys/${second?.id}/rotate`, '{"overlapSeconds":3600}'],
    ['POST', `/keys/${first?.id}/revoke`],
    ['GET', '/workspaces/ws_1/keys'],
    ['GET', '/workspaces/ws_1/audit'],
    ['GET', `/keys/${first?.secret}`],
    ['POST', `/workspaces/ws_1/keys?${CANARY}`, `{"name":"${CANARY}","scopes":["${CANARY}"]}`],
    ['POST', '/workspaces/ws_1/keys', `{"${CANARY}`],
    ['GET', '/workspaces/ws_1/keys', undefined, CANARY],
    ['GET', '/workspaces/ws_1/keys', undefined, first?.secret],
    ['POST', '/workspaces/ws_1/keys', `{"name":"a ${first?.secret}","scopes":["files:read"]}`],
    // Each in the request id, which is in the log and the audit log.
    ['POST', '/workspaces/ws_1/keys', ISSUE, undefined, first?.secret],
    ['POST', '/workspaces/ws_1/keys', ISSUE, undefined, planted['admin token']],
    ['GET', '/workspaces/ws_1/audit'],
  ]
  for (const [method, path, body, token, requestId] of calls) {
    const response = await admin(method, path, body, token, requestId)
    const text = await response.text()
    // A new key is shown once, in this response; from here on no other output may contain it.
    const issued = /"secret":"(wsk_[^"]+)"/.exec(text)?.[1]
    if (issued === undefined) outputs.set(`admin ${method} ${path.slice(0, 20)} ${outputs.size}`, text)
    else planted[`key issued in call ${Object.keys(planted).length}`] = issued
    outputs.set(`request id ${outputs.size}`, response.headers.get('x-request-id') ?? '')
  }
}

function admin(
  method: string,
  path: string,
  body?: string,
  token = planted['admin token'],
  requestId = 'console-canaries',
): Promise<Response> {
  return fetch(`${console.urls.console}/admin/v1${path}`, {
    method,
    headers: {
      authorization: `Bearer ${token}`,
      'x-request-id': requestId,
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
    },
    ...(body === undefined ? {} : { body }),
  })
}

async function issue(): Promise<{ id: string; secret: string }> {
  const json = (await (await admin('POST', '/workspaces/ws_1/keys', ISSUE)).json()) as {
    key: { id: string }
    secret: string
  }
  return { id: json.key.id, secret: json.secret }
}

/** Well formed, so that it is looked up in every store. */
async function unknownKey(): Promise<string> {
  const { importSigningSecret, mintSecret } = await import('../../src/domain/key/secret.ts')
  const signing = importSigningSecret(Buffer.from(planted['signing secret'] ?? '', 'base64'))
  const secret = mintSecret('wsk_', randomBytes(32), signing).reveal()
  planted['unknown key'] = secret
  return secret
}

async function readiness(): Promise<string> {
  return (await fetch(`${gateway.urls.ops}/readyz`)).text()
}

async function collect(answers: readonly RawAnswer[]): Promise<void> {
  outputs.set('answers', answers.map(({ head, body }) => head + body).join('\n'))
  outputs.set('upstream', upstream.requests.join('').replaceAll(SERVICE_TOKEN, ''))
  for (const [name, { urls }] of Object.entries({ gateway, console })) {
    outputs.set(`metrics of the ${name}`, await (await fetch(`${urls.ops}/metrics`)).text())
    outputs.set(`readiness of the ${name}`, await (await fetch(`${urls.ops}/readyz`)).text())
  }
  const names = await redis.admin.keys('*')
  const records = await Promise.all(names.map(name => redis.admin.get(name)))
  outputs.set('Redis', [...names, ...records].join('\n'))
  // Outputs that are flushed on exit, traces among them.
  const ends = await Promise.all([gateway.process.stop('SIGTERM'), console.process.stop('SIGTERM')])
  outputs.set('log of the gateway', `${ends[0]?.stdout}\n${ends[0]?.stderr}`)
  outputs.set('log of the console', `${ends[1]?.stdout}\n${ends[1]?.stderr}`)
  outputs.set('traces', collector.text)
  const files = readdirSync(databaseFolder).map(file => readFileSync(join(databaseFolder, file), 'latin1'))
  outputs.set('database', files.join('\n'))
}

/** Encodings in which a program may emit a text unintentionally. */
function encodings(secret: string): string[] {
  const bytes = Buffer.from(secret)
  return [secret, encodeURIComponent(secret), bytes.toString('base64'), bytes.toString('hex')].map(text =>
    text.replace(/=+$/, ''),
  )
}

function leaks(): string[] {
  const secrets = Object.entries({ ...planted, 'service token': SERVICE_TOKEN })
  const found = [...outputs].flatMap(([output, text]) =>
    secrets
      .filter(([, secret]) => encodings(secret).some(encoded => text.includes(encoded)))
      .map(([name]) => `${name} in ${output}`),
  )
  const canaries = [...outputs]
    .filter(([, text]) => text.includes(CANARY))
    .map(([output]) => `canary in ${output}`)
  return [...found, ...canaries]
}
