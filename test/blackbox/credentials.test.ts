import { createHmac, randomBytes } from 'node:crypto'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { importSigningSecret, mintSecret } from '../../src/domain/key/secret.ts'
import { sendPipelined } from '../support/pipelined-load.ts'
import { exchange, field, fingerprint, get, type RawAnswer } from '../support/raw-client.ts'
import { scrape, sumOf } from '../support/scrape.ts'
import { type IssuedKey, startWorld, type World } from '../support/world.ts'

const WORKSPACE = '/api/v1/workspaces/ws_1'
const FORGED = 20_000
let world: World
let key: IssuedKey

beforeAll(async () => {
  world = await startWorld({ POSTERN_LOG_LEVEL: 'trace' })
  key = await world.issue()
})
afterAll(() => world.stop())
beforeEach(() => world.upstream.reset())

const send = (...lines: string[]): Promise<RawAnswer> =>
  exchange(world.gateway.urls.gateway, get(WORKSPACE, undefined, ...lines))
const codeOf = (answer: RawAnswer) => (JSON.parse(answer.body) as { code: string }).code

/** Number of lookups so far in memory, Redis and the key service. */
async function lookUps(): Promise<number> {
  const metrics = await scrape(world.gateway.urls.ops)
  return (
    sumOf(metrics, 'postern_key_cache_lookups_total') +
    sumOf(metrics, 'postern_redis_commands_total', 'command="getrange"')
  )
}

describe('a credential in any other form is rejected before any lookup, and never forwarded', () => {
  const cases: [name: string, lines: () => string[], code: string][] = [
    ['none', () => [], 'key_missing'],
    ['twice the same', () => [bearer(key.secret), bearer(key.secret)], 'key_missing'],
    ['two of them', () => [bearer(key.secret), bearer('x')], 'key_missing'],
    ['a tab instead of the space', () => [`Authorization: Bearer\t${key.secret}`], 'key_missing'],
    ['no space', () => [`Authorization: Bearer${key.secret}`], 'key_missing'],
    ['more behind it', () => [`${bearer(key.secret)} x`], 'key_invalid'],
    ['quotes', () => [bearer(`"${key.secret}"`)], 'key_invalid'],
    ['a list', () => [bearer(`${key.secret}, Bearer ${key.secret}`)], 'key_invalid'],
    ['lower case', () => [bearer(key.secret.toLowerCase())], 'key_invalid'],
    ['upper case', () => [bearer(key.secret.toUpperCase())], 'key_invalid'],
    [
      'look-alike letters of other alphabets',
      () => [bearer(utf8(key.secret.replace('wsk', 'wѕk')))],
      'key_invalid',
    ],
    ['full-width letters', () => [bearer(utf8(key.secret.replace('w', 'ｗ')))], 'key_invalid'],
    ['a combining mark', () => [bearer(utf8(`${key.secret}\u0301`))], 'key_invalid'],
    ['another prefix', () => [bearer(key.secret.replace('wsk_', 'xyz_'))], 'key_invalid'],
    ['one character changed', () => [bearer(changed(key.secret))], 'key_invalid'],
    ['one character too many', () => [bearer(`${key.secret}0`)], 'key_invalid'],
    ['the hint', () => [bearer(`wsk_…${key.secret.slice(-4)}`)], 'key_invalid'],
    ...['__proto__', '*', 'key:*', '{}', '$where', "' OR 1=1--", '../..', 'x'.repeat(8000)].map(
      (text): (typeof cases)[number] => [text.slice(0, 20), () => [bearer(text)], 'key_invalid'],
    ),
  ]
  test.each(cases)('%s', async (_name, lines, code) => {
    const before = await lookUps()
    const answer = await send(...lines())
    expect([answer.status, codeOf(answer)]).toEqual([401, code])
    expect(answer.head + answer.body).not.toContain(key.secret.slice(4, 20))
    expect(await lookUps()).toBe(before)
    expect(world.upstream.requests).toEqual([])
  })

  test('a control byte in the credential makes the request malformed (400)', async () => {
    for (const byte of ['\0', '\r', '\n x', '\x7f'])
      expect((await send(`${bearer(key.secret)}${byte}`)).status).toBe(400)
    expect(world.upstream.requests).toEqual([])
  })
})

test('the scheme is case-insensitive and may be followed by several spaces (RFC 6750)', async () => {
  for (const line of [`bearer ${key.secret}`, `BEARER ${key.secret}`, `Bearer   ${key.secret}`])
    expect((await send(`Authorization: ${line}`)).status).toBe(200)
})

test('every invalid credential gets the same response, byte for byte', async () => {
  const forged = mintSecret('wsk_', randomBytes(32), importSigningSecret(randomBytes(32))).reveal()
  const unissued = mintSecret('wsk_', randomBytes(32), signingKey()).reveal()
  const answers = await Promise.all(
    ['junk', forged, unissued, changed(key.secret)].map(secret => send(bearer(secret))),
  )
  expect(new Set(answers.map(fingerprint)).size).toBe(1)
})

test('a key in the query string is ignored, rejected next to a valid key, and appears in no log', async () => {
  const inQuery = (name: string) => `${WORKSPACE}?${name}=${key.secret}`
  for (const name of ['access_token', 'api_key', 'key', 'token']) {
    const alone = await exchange(world.gateway.urls.gateway, get(inQuery(name)))
    expect([alone.status, codeOf(alone)]).toEqual([401, 'key_missing'])
    const beside = await exchange(world.gateway.urls.gateway, get(inQuery(name), key.secret))
    expect([beside.status, codeOf(beside)]).toEqual([400, 'invalid_request'])
  }
  const last = await exchange(world.gateway.urls.gateway, get(inQuery('x'), undefined, 'X-Request-Id: last'))
  expect(field(last, 'x-request-id')).toBe('last')
  await world.gateway.process.logged(line => line['requestId'] === 'last')
  expect(world.gateway.process.lines.join('\n')).not.toContain(key.secret.slice(4))
  expect(world.upstream.requests).toEqual([])
})

test(`${FORGED} forged keys with a valid checksum cost no lookup`, async () => {
  const before = await lookUps()
  const statuses = await sendPipelined(world.gateway.urls.gateway, FORGED, index =>
    get('/api/v1/auth', forgery(index)),
  )
  expect(statuses).toEqual(new Map([[401, FORGED]]))
  expect(await lookUps()).toBe(before)
})

test('a record of another workspace, even a similarly spelled one, gives no access', async () => {
  for (const workspaceId of ['WS_1', 'ws_1.', 'ws_1~', 'ws_11', 'ws_']) {
    const { secret } = await world.issue({ workspaceId })
    const answer = await exchange(world.gateway.urls.gateway, get(WORKSPACE, secret))
    expect([workspaceId, answer.status]).toEqual([workspaceId, 404])
  }
  expect(world.upstream.requests).toEqual([])
})

test('a rotated key works until its grace period ends, its replacement works at once, and each keeps its own expiry', async () => {
  const old = await world.issue()
  expect((await send(bearer(old.secret))).status).toBe(200)
  const rotated = await world.admin('POST', `/keys/${old.id}/rotate`, { overlapSeconds: 3600 })
  const successor = String(rotated.json['secret'])
  expect((await send(bearer(old.secret))).status).toBe(200)
  expect((await send(bearer(successor))).status).toBe(200)
  const again = await world.admin('POST', `/keys/${(rotated.json['key'] as { id: string }).id}/rotate`, {
    overlapSeconds: 0,
  })
  await expect.poll(async () => codeOf(await send(bearer(successor)))).toBe('key_revoked')
  expect((await send(bearer(String(again.json['secret'])))).status).toBe(200)
  expect((await send(bearer(old.secret))).status).toBe(200)
})

function bearer(secret: string): string {
  return `Authorization: Bearer ${secret}`
}

/** UTF-8 bytes, one character each, as `get` sends them. */
function utf8(text: string): string {
  return Buffer.from(text, 'utf8').toString('latin1')
}

function changed(secret: string): string {
  const at = 20
  return `${secret.slice(0, at)}${secret[at] === 'a' ? 'b' : 'a'}${secret.slice(at + 1)}`
}

function signingKey() {
  return importSigningSecret(Buffer.from(world.env['POSTERN_KEYS_SIGNING_SECRETS'] ?? '', 'base64'))
}

/** Signed with a made-up secret: the best that an outsider can do. */
function forgery(index: number): string {
  const hex = createHmac('sha256', 'made up').update(String(index)).digest('hex')
  return `wsk_${hex.slice(0, 43)}${hex.slice(0, 11)}`
}
