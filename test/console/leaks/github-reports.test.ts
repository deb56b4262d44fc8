import { writeFileSync } from 'node:fs'
import { type AddressInfo, connect } from 'node:net'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import type { PrepareReload } from '../../../src/config/reloadable.ts'
import type { Config } from '../../../src/config/schema/schema.ts'
import { SettingError } from '../../../src/domain/errors.ts'
import { digestKey } from '../../../src/domain/key/secret.ts'
import { type ConsoleOptions, consoleConfig, startConsole } from '../../support/console.ts'
import { GithubDouble, type SignedReport } from '../../support/github-double.ts'
import { metricValue } from '../../support/metric-value.ts'
import { runPosternHere } from '../../support/postern-here.ts'
import { SIGNING_SECRET } from '../../support/signing-secret.ts'
import { databaseDirectory, temporaryDirectory } from '../../support/temporary-directory.ts'
import { until } from '../../support/until.ts'
import { WebhookReceiver } from '../../support/webhook-receiver.ts'

const TYPE = 'postern_api_key'
const PLACE = 'https://github.com/octocat/hello/blob/1234/deploy.sh'

async function startReceiving(leaks: NonNullable<ConsoleOptions['leaks']> = {}, more: ConsoleOptions = {}) {
  const github = await GithubDouble.start()
  const all = { enabled: true, ...leaks, github: { keysUrl: github.keysUrl, ...leaks.github } }
  const running = await startConsole({ ...more, leaks: all })
  const issue = async (fields = {}) => {
    const body = { name: 'CI', scopes: ['files:read'], ...fields }
    const { key, secret } = (await running.send('POST', '/admin/v1/workspaces/ws_1/keys', body)).body
    return { id: String(key.id), secret: String(secret) }
  }
  const post = async ({ payload, headers }: SignedReport) => {
    const response = await running.app.inject({ method: 'POST', url: '/leaks', payload, headers })
    return {
      status: response.statusCode,
      body: response.json(),
      text: response.payload,
      headers: response.headers,
    }
  }
  const report = (tokens: readonly object[], index = -1) => post(github.sign(JSON.stringify(tokens), index))
  const stateOf = async (id: string) => (await running.send('GET', `/admin/v1/keys/${id}`)).body.key.state
  const auditOf = async (id: string) =>
    JSON.parse((await running.send('GET', `/admin/v1/audit?keyId=${id}`)).text).entries as AuditJson[]
  return { ...running, github, issue, post, report, stateOf, auditOf }
}

interface AuditJson {
  readonly action: string
  readonly actor: string
  readonly detail: Record<string, unknown>
}

const found = (token: string, url: string | undefined = PLACE) => ({
  token,
  type: TYPE,
  url,
  source: 'content',
})
const label = (token: string, text: string) => ({
  token_hash: digestKey(token),
  token_type: TYPE,
  label: text,
})

test('a signed report revokes the keys in it, and labels each token by its hash', async () => {
  const { issue, report, stateOf, auditOf, metrics, log } = await startReceiving()
  const [key, other] = [await issue(), await issue()]
  const stranger = `wsk_${'x'.repeat(54)}`
  const { status, body, text } = await report([found(key.secret), found(stranger), found(key.secret)])
  expect([status, body]).toEqual([
    200,
    [
      label(key.secret, 'true_positive'),
      label(stranger, 'false_positive'),
      label(key.secret, 'true_positive'),
    ],
  ])
  expect([await stateOf(key.id), await stateOf(other.id)]).toEqual(['revoked', 'active'])
  const [entry, ...before] = await auditOf(key.id)
  expect(entry).toMatchObject({ action: 'key.revoked', actor: 'github-secret-scanning' })
  expect(entry?.detail).toMatchObject({ reason: 'leak', foundAt: PLACE, source: 'content' })
  expect(before.map(({ action }) => action)).toEqual(['key.issued'])
  const count = (outcome: string) => metricValue(metrics.leakReports, { reporter: 'github', outcome })
  expect([await count('revoked'), await count('known'), await count('unknown')]).toEqual([1, 1, 1])
  for (const part of [text, JSON.stringify(log)]) expect(part).not.toContain(key.secret.slice(4, 40))
})

test('keys that are suspended, rotated, expired or revoked are true positives, and those that work end', async () => {
  const { send, issue, report, stateOf, auditOf } = await startReceiving()
  const [suspended, retiring, revoked] = [await issue(), await issue(), await issue()]
  await send('POST', `/admin/v1/keys/${suspended.id}/suspend`)
  await send('POST', `/admin/v1/keys/${retiring.id}/rotate`, {})
  await send('POST', `/admin/v1/keys/${revoked.id}/revoke`)
  const imported = 'imported-key-of-another-system'
  const entry = {
    digest: digestKey(imported),
    hint: '…tem',
    workspaceId: 'ws_1',
    name: 'old',
    scopes: ['files:read'],
    expiresAt: '2020-01-01T00:00:00Z',
  }
  await send('POST', '/admin/v1/import', { keys: [entry] })
  const tokens = [suspended.secret, retiring.secret, revoked.secret, imported]
  const { body } = await report(tokens.map(token => found(token)))
  expect(body).toEqual(tokens.map(token => label(token, 'true_positive')))
  expect(await Promise.all([suspended, retiring].map(({ id }) => stateOf(id)))).toEqual([
    'revoked',
    'revoked',
  ])
  expect((await auditOf(revoked.id)).map(({ action, detail }) => [action, detail['reason']])).toEqual([
    ['key.reported', 'leak'],
    ['key.revoked', 'request'],
    ['key.issued', undefined],
  ])
})

test('with leaks.action: report a key keeps working; audit log and webhook have the report', async () => {
  const receiver = await WebhookReceiver.start()
  const webhook = { url: receiver.url, secret: Buffer.alloc(32, 7).toString('base64') }
  const { issue, report, stateOf, auditOf } = await startReceiving({ action: 'report' }, { webhook })
  const key = await issue()
  await report([found(key.secret)])
  expect(await stateOf(key.id)).toBe('active')
  expect((await auditOf(key.id))[0]).toMatchObject({
    action: 'key.reported',
    detail: { reason: 'leak', foundAt: PLACE },
  })
  await until('the event arrives', () => receiver.types.includes('key.reported'))
  const event = receiver.received
    .map(({ body }) => JSON.parse(body))
    .find(({ type }) => type === 'key.reported')
  expect(event.data).toMatchObject({ key: { id: key.id, state: 'active' }, reason: 'leak', foundAt: PLACE })
  await receiver.stop()
})

test('the webhook learns of a revocation by a report, with the place of the finding', async () => {
  const receiver = await WebhookReceiver.start()
  const webhook = { url: receiver.url, secret: Buffer.alloc(32, 7).toString('base64') }
  const { issue, report } = await startReceiving({}, { webhook })
  const key = await issue()
  await report([found(key.secret)])
  await until('the event arrives', () => receiver.types.includes('key.revoked'))
  const event = receiver.received
    .map(({ body }) => JSON.parse(body))
    .find(({ type }) => type === 'key.revoked')
  expect(event.data).toMatchObject({ key: { id: key.id, state: 'revoked' }, reason: 'leak', foundAt: PLACE })
  await receiver.stop()
})

test('a replayed report changes nothing, also if copies arrive at the same time', async () => {
  const { github, issue, post, auditOf } = await startReceiving({ action: 'report' })
  const key = await issue()
  const signed = github.sign(JSON.stringify([found(key.secret)]))
  const answers = await Promise.all(Array.from({ length: 8 }, () => post(signed)))
  for (const { body } of answers) expect(body).toEqual([label(key.secret, 'true_positive')])
  expect((await auditOf(key.id)).map(({ action }) => action)).toEqual(['key.reported', 'key.issued'])
})

test('at most ten places of one key are recorded', async () => {
  const { issue, report, auditOf } = await startReceiving({ action: 'report' })
  const key = await issue()
  const { body } = await report(
    Array.from({ length: 15 }, (_, index) => found(key.secret, `${PLACE}#L${index}`)),
  )
  expect(body).toHaveLength(15)
  expect(await auditOf(key.id)).toHaveLength(11)
})

test('the audit chain stays verifiable', async () => {
  const databaseUrl = `sqlite:${join(databaseDirectory(), 'a.db')}`
  const { issue, report } = await startReceiving({}, { databaseUrl })
  const key = await issue()
  await report([found(key.secret), found(key.secret, `${PLACE}?again`)])
  const environment = { POSTERN_KEYS_SIGNING_SECRETS: SIGNING_SECRET.toString('base64') }
  const { code, stdout } = await runPosternHere(
    ['audit', 'verify', '--database-url', databaseUrl],
    environment,
  )
  expect([code, stdout]).toEqual([0, expect.stringContaining('Entries in the chain: 3')])
})

test('a body changed by one byte is rejected, and so is every other report that GitHub did not sign', async () => {
  const { github, issue, post, stateOf } = await startReceiving()
  const key = await issue()
  const signed = github.sign(JSON.stringify([found(key.secret)]))
  const stranger = await GithubDouble.start()
  const broken: readonly SignedReport[] = [
    { ...signed, payload: `${signed.payload} ` },
    { ...signed, payload: signed.payload.replace('content', 'Content') },
    { ...signed, headers: { ...signed.headers, 'github-public-key-signature': 'AAAA' } },
    { ...signed, headers: { ...signed.headers, 'github-public-key-signature': '' } },
    { ...signed, headers: { ...signed.headers, 'github-public-key-identifier': '__proto__' } },
    { ...signed, headers: { 'content-type': 'application/json' } },
    {
      ...signed,
      headers: {
        ...signed.headers,
        'github-public-key-signature':
          stranger.sign(signed.payload).headers['github-public-key-signature'] ?? '',
      },
    },
  ]
  for (const report of broken) {
    const { status, body } = await post(report)
    expect([status, body.code]).toEqual([403, 'forbidden'])
  }
  expect(await stateOf(key.id)).toBe('active')
  expect((await post(signed)).status).toBe(200)
})

test('reports without a good signature are limited for each address; signed ones are not', async () => {
  const { github, post, report } = await startReceiving({ reportsPerMinute: 3 })
  const forged = { ...github.sign('[]'), payload: '[1]' }
  const statuses: number[] = []
  for (let count = 0; count < 5; count++) statuses.push((await post(forged)).status)
  expect(statuses).toEqual([403, 403, 403, 429, 429])
  expect(Number((await post(forged)).headers['retry-after'])).toBeGreaterThan(0)
  expect((await report([])).status).toBe(200)
})

describe('a signed report is rejected as a whole, with a text that says why', () => {
  const entry = { token: 'x', type: 'y' }
  const [NO_ARRAY, NO_ENTRY] = ['The body must be a JSON array', 'Each entry must have a token and a type']
  const UNSTORABLE =
    'The URL or the request body holds NUL, half a surrogate pair, or bytes that are not UTF-8'
  test.each<[string, string, number, string]>([
    ['no JSON', 'tokens', 400, NO_ARRAY],
    ['no array', JSON.stringify(entry), 400, NO_ARRAY],
    ['an entry without a token', '[{"type":"y"}]', 400, NO_ENTRY],
    ['an entry that is null', '[null]', 400, NO_ENTRY],
    ['a token that is a number', '[{"token":1,"type":"y"}]', 400, NO_ENTRY],
    ['an empty token', '[{"token":"","type":"y"}]', 400, NO_ENTRY],
    ['a text that no database stores', '[{"token":"\\u0000","type":"y"}]', 400, UNSTORABLE],
    [
      'a token of more than 4,096 characters',
      JSON.stringify([{ ...entry, token: 'x'.repeat(4097) }]),
      400,
      NO_ENTRY,
    ],
    ['an entry without a type', '[{"token":"x"}]', 400, NO_ENTRY],
    [
      'a type of more than 200 characters',
      JSON.stringify([{ ...entry, type: 'y'.repeat(201) }]),
      400,
      NO_ENTRY,
    ],
    [
      'more than 1,000 tokens',
      JSON.stringify(Array.from({ length: 1001 }, () => entry)),
      413,
      'A report may have 1000 tokens; send several',
    ],
  ])('%s', async (_, payload, expected, error) => {
    const { github, post, metrics } = await startReceiving()
    const { status, body } = await post(github.sign(payload))
    expect([status, body.error]).toEqual([expected, error])
    expect(await metricValue(metrics.leakReports, { reporter: 'github', outcome: 'invalid' })).toBe(1)
  })

  test('more than 1 MiB', async () => {
    const { github, post } = await startReceiving()
    expect((await post(github.sign(`["${'x'.repeat(1024 * 1024)}"]`))).status).toBe(413)
  })

  test('but not at its bounds: 1,000 tokens, of 4,096 characters, of a type of 200', async () => {
    const { report } = await startReceiving()
    const longest = { token: 'x'.repeat(4096), type: 'y'.repeat(200) }
    const short = Array.from({ length: 999 }, (_, index) => ({ token: `x${index}`, type: '' }))
    const { status, body } = await report([longest, ...short])
    expect([status, body.length]).toEqual([200, 1000])
    expect(body[0]).toEqual({
      token_hash: digestKey(longest.token),
      token_type: longest.type,
      label: 'false_positive',
    })
  })
})

test('the log says of each report how many tokens it had, and how many were keys', async () => {
  const { issue, report, log } = await startReceiving()
  const key = await issue()
  await report([found(key.secret), found('stranger'), found('another')])
  expect(log.find(({ msg }) => msg === 'leak report from GitHub')).toMatchObject({
    ...{ tokens: 3, found: 1, isCurrentKey: true },
    requestId: expect.any(String),
  })
})

/** Reports whose bodies are held back, from addresses that a trusted proxy names. */
async function startHolding() {
  const { github, app } = await startReceiving({}, { signIn: { trustedProxies: ['127.0.0.1'] } })
  const { payload, headers } = github.sign('[]')
  await app.listen({ host: '127.0.0.1', port: 0 })
  const { port } = app.server.address() as AddressInfo
  const head = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`)
  const hold = (address: string) => {
    const socket = connect(port, '127.0.0.1')
    onTestFinished(() => void socket.destroy())
    socket.on('error', () => {})
    const own = `host: a\r\nx-forwarded-for: ${address}\r\ncontent-length: ${payload.length}\r\n`
    socket.write(`POST /leaks HTTP/1.1\r\n${head.join('')}${own}\r\n`)
    return socket
  }
  const send = (address: string) =>
    fetch(`http://127.0.0.1:${port}/leaks`, {
      method: 'POST',
      headers: { ...headers, 'x-forwarded-for': address },
      body: payload,
    })
  const statusOf = async (address: string) => (await send(address)).status
  return { hold, send, statusOf }
}

test('of one network at most eight bodies are received at once, and the next is taken when one has ended', async () => {
  const { hold, send, statusOf } = await startHolding()
  const sockets = Array.from({ length: 8 }, () => hold('192.0.2.1'))
  await until('eight are being received', async () => (await statusOf('192.0.2.1')) === 503)
  const refused = await send('192.0.2.1')
  expect([refused.headers.get('retry-after'), await refused.json()]).toEqual([
    '1',
    { code: 'reports_unavailable', error: 'Too many reports are being received; try again later' },
  ])
  expect(await statusOf('198.51.100.1')).toBe(200)
  sockets[0]?.destroy()
  await until('one has ended', async () => (await statusOf('192.0.2.1')) === 200)
})

test('of all networks at most 32 bodies are received at once, and others are taken when they have ended', async () => {
  const { hold, statusOf } = await startHolding()
  const sockets = Array.from({ length: 32 }, (_, index) => hold(`192.0.2.${index}`))
  await until('32 are being received', async () => (await statusOf('198.51.100.1')) === 503)
  for (const socket of sockets.slice(1)) socket.destroy()
  await until('they have ended', async () => (await statusOf('198.51.100.1')) === 200)
})

test('every key of a report with a thousand tokens is revoked', async () => {
  const { send, issue, report } = await startReceiving()
  const keys = await Promise.all(Array.from({ length: 40 }, () => issue()))
  const strangers = Array.from({ length: 960 }, (_, index) => found(`stranger-${index}`))
  const { body } = await report([...keys.map(({ secret }) => found(secret)), ...strangers])
  expect(body.filter((entry: { label: string }) => entry.label === 'true_positive')).toHaveLength(40)
  const active = await send('GET', '/admin/v1/keys?state=active')
  expect(active.body.keys).toEqual([])
})

test('a key that GitHub starts to sign with is found, and one that it has withdrawn is not', async () => {
  const { github, report, log } = await startReceiving()
  expect((await report([])).status).toBe(200)
  github.rotate()
  // Within five minutes of the last attempt the list is not read again: this is the test of the route alone.
  expect((await report([], -1)).status).toBe(403)
  expect((await report([], 0)).status).toBe(200)
  expect(log.filter(({ msg }) => msg === 'leak report from GitHub')).toHaveLength(2)
})

test('while the public keys cannot be read, a report gets 503, never a refusal', async () => {
  const { github, report } = await startReceiving()
  github.answer = response => response.writeHead(500).end()
  const { status, body, headers } = await report([])
  expect([status, body.code, headers['retry-after']]).toEqual([503, 'reports_unavailable', '60'])
})

test('the public keys may come from a file, for a console that cannot reach GitHub', async () => {
  const github = await GithubDouble.start()
  const keysFile = join(temporaryDirectory(), 'keys.json')
  writeFileSync(keysFile, github.list)
  const { app } = await startConsole({ leaks: { enabled: true, github: { keysFile } } })
  const { payload, headers } = github.sign('[]')
  const response = await app.inject({ method: 'POST', url: '/leaks', payload, headers })
  expect([response.statusCode, response.payload, github.requests]).toEqual([200, '[]', []])
})

test('a changed file of public keys takes effect on reload; a broken one changes nothing', async () => {
  const github = await GithubDouble.start()
  const keysFile = join(temporaryDirectory(), 'keys.json')
  writeFileSync(keysFile, github.list)
  const prepares: PrepareReload<Config>[] = []
  const leaks = { enabled: true, github: { keysFile } }
  const onReload = (prepare: PrepareReload<Config>) => void prepares.push(prepare)
  const { app } = await startConsole({ leaks, parts: { onReload } })
  const reload = () => {
    const applies = prepares.map(prepare => prepare(consoleConfig({ leaks })))
    for (const apply of applies) apply()
  }
  const statusOf = async () =>
    (await app.inject({ method: 'POST', url: '/leaks', ...github.sign('[]') })).statusCode
  github.rotate()
  expect(await statusOf()).toBe(403)
  writeFileSync(keysFile, '{')
  expect(reload).toThrow('is not JSON')
  writeFileSync(keysFile, github.list)
  reload()
  expect(await statusOf()).toBe(200)
})

test.each([
  ['keys.json', ': the list of public keys holds no ECDSA P-256 key'],
  ['absent.json', ' names a file that cannot be read: ENOENT: no such file or directory'],
])('a file without keys stops the start as a mistake in the setting: %s', async (name, problem) => {
  const folder = temporaryDirectory()
  writeFileSync(join(folder, 'keys.json'), '{"public_keys":[]}')
  const leaks = { enabled: true, github: { keysFile: join(folder, name) } }
  const failure = await startConsole({ leaks }).catch((error: unknown) => error)
  expect(failure).toBeInstanceOf(SettingError)
  expect(failure).toHaveProperty('message', `leaks.github.keysFile${problem}`)
})

test('without leaks.enabled neither path exists', async () => {
  const { app } = await startConsole()
  for (const url of ['/leaks', '/leaks/report']) {
    const response = await app.inject({
      method: 'POST',
      url,
      payload: '{}',
      headers: { 'content-type': 'application/json' },
    })
    const nowhere = await app.inject({
      method: 'POST',
      url: '/nowhere',
      payload: '{}',
      headers: { 'content-type': 'application/json' },
    })
    expect([response.statusCode, response.payload]).toEqual([nowhere.statusCode, nowhere.payload])
    expect(response.statusCode).toBe(404)
  }
})

test('every other method gets 405', async () => {
  const { app } = await startReceiving()
  for (const url of ['/leaks', '/leaks/report']) {
    const response = await app.inject({ method: 'GET', url })
    expect([response.statusCode, response.headers['allow']]).toEqual([405, 'POST'])
  }
})
