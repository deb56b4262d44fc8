import { Validator } from '@seriousme/openapi-schema-validator'
import { afterAll, beforeAll, describe, expect, it, test } from 'vitest'
import { digestKey } from '../../src/domain/key/secret.ts'
import { CHANGES_CHANNEL, decodeRecord, recordKeyName } from '../../src/domain/wire.ts'
import { readMessage } from '../support/messages.ts'
import { until } from '../support/until.ts'
import { startWorld, type World } from '../support/world.ts'
import { CONTRACT, expectToFit, schema, schemaAt } from './contract.ts'
import { startKeyService } from './example-key-service.ts'

const DIGEST = digestKey('a key')
const RECORD = {
  id: 'k-1',
  workspaceId: 'ws_1',
  scopes: ['files:read'],
  expiresAt: '2027-02-18T09:00:00Z',
  version: 1,
}

test('the document is valid OpenAPI 3.1', async () => {
  const validator = new Validator()
  expect(await validator.validate(structuredClone(CONTRACT))).toEqual({ valid: true })
  expect(validator.version).toBe('3.1')
})

describe('the document and the gateway accept the same records', () => {
  const judge = schema('Record')

  it.each([
    ['the least', {}],
    ['all of it', { hint: '…x7Qf', revokedAt: '2026-11-20T00:00:00.123Z', v: 1 }],
    ['unknown fields', { colour: 'gold' }],
    ['a plan', { plan: 'gold', v: 3 }],
    ['no scopes', { scopes: [] }],
    ['not revoked', { revokedAt: null }],
    ['every kind of character', { id: '!k~', workspaceId: 'A-z_0.9~', scopes: ['!#[]~', 'a'.repeat(64)] }],
    ['a name of dots', { workspaceId: '...' }],
    ['version 0', { version: 0 }],
    ['a time of another zone', { expiresAt: '2027-02-18T09:00:00+01:00' }],
    ['microseconds', { revokedAt: '2026-11-20T09:00:00.123456Z' }],
    ['suspended', { suspendedAt: '2026-11-20T09:00:00Z', v: 2 }],
    ['networks', { allowedCidrs: ['192.0.2.0/24', '::1'], v: 2 }],
    ['neither', { suspendedAt: null, allowedCidrs: null, plan: null }],
  ])('good: %s', (_, changes) => {
    expectToFit(judge, { ...RECORD, ...changes })
    expect(decodeRecord(JSON.stringify({ ...RECORD, ...changes }), DIGEST, null).ok).toBe(true)
  })

  it.each<[string, object]>([
    ...Object.keys(RECORD).map((name): [string, object] => [`no ${name}`, { [name]: undefined }]),
    ['an id of many words', { id: 'k 1' }],
    ['no id to speak of', { id: '' }],
    ['an id that goes on', { id: 'k'.repeat(129) }],
    ['a workspace that is a path', { workspaceId: '../x' }],
    ['a dot', { workspaceId: '.' }],
    ['two dots', { workspaceId: '..' }],
    ['a workspace in other letters', { workspaceId: 'ä' }],
    ['one scope for a list', { scopes: 'files:read' }],
    ['a scope of two words', { scopes: ['files read'] }],
    ['a scope with a quote', { scopes: ['"'] }],
    ['too many scopes', { scopes: Array.from({ length: 65 }, (_, index) => `s${index}`) }],
    ['a time of no zone', { expiresAt: '2027-02-18T09:00:00' }],
    ['a day', { expiresAt: '2027-02-18' }],
    ['a plan in capitals', { plan: 'Gold' }],
    ['a plan without a name', { plan: '' }],
    ['a number for a time', { expiresAt: 1_800_000_000_000 }],
    ['picoseconds', { expiresAt: '2027-02-18T09:00:00.123456789012Z' }],
    ['revoked: false', { revokedAt: false }],
    ['a hint that goes on', { hint: 'x'.repeat(129) }],
    ['a version of another kind', { version: '1' }],
    ['half a version', { version: 1.5 }],
    ['a version below none', { version: -1 }],
    ['a version that no database holds', { version: 2_147_483_648 }],
    ['suspended: true', { suspendedAt: true }],
    ['one network for a list', { allowedCidrs: '192.0.2.0/24' }],
    ['a form of tomorrow', { v: 4 }],
  ])('bad: %s', (_, changes) => {
    expect(judge({ ...RECORD, ...changes })).toBe(false)
    expect(decodeRecord(JSON.stringify({ ...RECORD, ...changes }), DIGEST, null).ok).toBe(false)
  })
})

describe('the document and the gateway accept the same messages', () => {
  it.each([
    ['Change', { digest: DIGEST, version: 2, at: 1 }, true],
    ['Change', { digest: DIGEST, version: 2, at: 1, note: 'x' }, true],
    ['Change', { digest: DIGEST, version: 2_147_483_647, at: 1, sender: 'me', mac: 'x'.repeat(43) }, true],
    ['Heartbeat', { beat: 'me', at: 1 }, true],
    ['Heartbeat', { beat: 'me', monotonic: 1, at: 1, mac: 'x'.repeat(43) }, true],
    ['Change', { digest: DIGEST, version: 2_147_483_648, at: 1 }, false],
    ['Change', { digest: DIGEST, version: 2, at: 1, sender: 'two words' }, false],
    ['Heartbeat', { beat: 'two words', at: 1 }, false],
    ['Heartbeat', { beat: 'me', monotonic: -1, at: 1 }, false],
    ['Change', { digest: DIGEST.toUpperCase(), version: 2, at: 1 }, false],
    ['Change', { digest: DIGEST, at: 1 }, false],
    ['Change', { digest: DIGEST, version: 2 }, false],
    ['Change', { digest: DIGEST, version: 2, at: '2026-11-20T00:00:00Z' }, false],
    ['Change', { digest: DIGEST, version: 2, at: 1, beat: 'me' }, false],
    ['Heartbeat', { beat: 'me', digest: DIGEST, at: 1 }, false],
    ['Heartbeat', { beat: 'me' }, false],
  ])('%s %j: %s', (name, message, good) => {
    expect(schema(name)(message)).toBe(good)
    expect(readMessage(JSON.stringify(message)) !== null).toBe(good)
  })
})

describe('real responses match the document', () => {
  let world: World
  beforeAll(async () => {
    world = await startWorld()
  })
  afterAll(() => world.stop())

  const responses = '/paths/~1internal~1v1~1keys~1{digest}/get/responses'
  const body = (status: string) => schemaAt(`${responses}/${status}/content/application~1json/schema`)

  async function lookUp(url: string, digest: string, token: string) {
    const headers = { authorization: `Bearer ${token}` }
    const response = await fetch(`${url}/internal/v1/keys/${digest}`, { headers })
    return { status: response.status, json: (await response.json()) as Record<string, unknown> }
  }

  test('the console: a record, an unknown key, a wrong token', async () => {
    const { secret } = await world.issue()
    const token = world.env['POSTERN_KEY_SERVICE_TOKEN'] ?? ''
    const url = world.console.urls.internal
    const found = await lookUp(url, digestKey(secret), token)
    expect(found.status).toBe(200)
    expectToFit(body('200'), found.json)
    const absent = await lookUp(url, DIGEST, token)
    expect(absent).toMatchObject({ status: 404, json: { code: 'not_found' } })
    expectToFit(body('404'), absent.json)
    const stranger = await lookUp(url, DIGEST, 'not-the-token')
    expect(stranger.status).toBe(401)
    expectToFit(body('default'), stranger.json)
    expectToFit(
      schema('RedisRecord'),
      JSON.parse((await world.redis.admin.get(recordKeyName(digestKey(secret)))) ?? ''),
    )
  })

  test('the console: its messages on the channel', async () => {
    const said: Record<string, unknown>[] = []
    const subscriber = world.redis.admin.duplicate()
    subscriber.on('message', (_: string, text: string) => void said.push(JSON.parse(text)))
    await subscriber.subscribe(CHANGES_CHANNEL)
    const { secret, id } = await world.issue()
    await world.revoke(id)
    const versions = () =>
      said.flatMap(message => (message['digest'] === digestKey(secret) ? [message['version']] : []))
    // A change may be published more than once: the console repeats changes that may have been lost.
    await until('both changes are published', () => versions().includes(1) && versions().includes(2))
    await until('a heartbeat is published', () => said.some(message => 'beat' in message))
    for (const message of said) expectToFit(schema('beat' in message ? 'Heartbeat' : 'Change'), message)
    subscriber.disconnect()
  })

  test('the example: a record, an unknown key, a wrong token', async () => {
    const service = await startKeyService({ token: 'the-token-of-a-test' })
    const url = `http://127.0.0.1:${service.port}`
    await service.put('a key', RECORD)
    const found = await lookUp(url, DIGEST, 'the-token-of-a-test')
    expect(found).toEqual({ status: 200, json: RECORD })
    expectToFit(body('200'), found.json)
    const absent = await lookUp(url, digestKey('another key'), 'the-token-of-a-test')
    expect(absent).toMatchObject({ status: 404, json: { code: 'not_found' } })
    expectToFit(body('404'), absent.json)
    expect((await lookUp(url, DIGEST, 'not-the-token')).status).toBe(401)
    await service.stop()
  })
})
