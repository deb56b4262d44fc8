import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { parseJsonObject } from '../../src/domain/form/json.ts'
import type { KeyRecord } from '../../src/domain/key/key-record.ts'
import { eachText, TEXT_NAMES } from '../../src/domain/key/key-texts.ts'
import {
  CHANGES_CHANNEL,
  decodeRecord,
  deriveRecordKey,
  encodeRecord,
  isDigest,
  recordKeyName,
  toRecordJson,
} from '../../src/domain/wire.ts'
import { exampleRecord, grantOf, NOW_MS } from './examples.ts'

const RECORD_KEY = deriveRecordKey(Buffer.alloc(32, 1))
const OTHER_RECORD_KEY = deriveRecordKey(Buffer.alloc(32, 2))
const DIGEST = 'ab'.repeat(32)
const OTHER_DIGEST = 'cd'.repeat(32)

type Json = Record<string, unknown>

/** An entry of Redis with some fields changed, or removed if undefined. */
function tampered(changes: Json, record = exampleRecord()): string {
  const json = JSON.parse(encodeRecord(record, DIGEST, RECORD_KEY)) as Json
  return JSON.stringify({ ...json, ...changes })
}

function whyNot(text: string, keys: (typeof RECORD_KEY)[] | null = [RECORD_KEY]): string {
  const decoded = decodeRecord(text, DIGEST, keys)
  return decoded.ok ? 'accepted' : decoded.why
}

const instant = fc.integer({ min: 0, max: Date.UTC(9999, 0) })
const scope = fc.stringMatching(/^[a-z:*]{1,20}$/)
const records: fc.Arbitrary<KeyRecord> = fc.record({
  id: fc.stringMatching(/^key_[0-9A-Z]{26}$/),
  workspaceId: fc.stringMatching(/^[A-Za-z0-9_~-]{1,40}$/),
  name: fc.string(),
  scopes: fc.array(scope, { maxLength: 6 }),
  hint: fc.string({ maxLength: 20 }),
  createdAtMs: instant,
  createdBy: fc.string(),
  expiresAtMs: fc.oneof(
    instant,
    instant.map(ms => ms + 0.25),
  ),
  revokedAtMs: fc.option(instant),
  ...eachText(() => fc.option(fc.string())),
  suspendedAtMs: fc.option(instant),
  allowedCidrs: fc.subarray(['192.0.2.0/24', '2001:db8::/32', '::1/128']),
  plan: fc.option(fc.stringMatching(/^[a-z][a-z0-9-]{0,31}$/)),
  rotatedFrom: fc.option(fc.string()),
  replacedBy: fc.option(fc.string()),
  version: fc.integer({ min: 1, max: 2 ** 31 - 1 }),
})

describe('a record on the wire', () => {
  it('is decoded as it was encoded: no field that affects a decision is lost or changed', () => {
    fc.assert(
      fc.property(records, record => {
        const decoded = decodeRecord(encodeRecord(record, DIGEST, RECORD_KEY), DIGEST, [RECORD_KEY])
        expect(decoded).toEqual({
          ok: true,
          grant: {
            ...grantOf(record),
            // A revoked record names neither restriction nor plan.
            ...(record.revokedAtMs === null ? {} : { suspendedAtMs: null, allowedCidrs: [], plan: null }),
            scopes: [...new Set(record.scopes)].sort(),
            expiresAtMs: Math.floor(record.expiresAtMs),
          },
        })
      }),
    )
  })

  it('is JSON with a schema version and ISO instants, stored under the digest of the key', () => {
    expect(recordKeyName(DIGEST)).toBe(`postern:key:${DIGEST}`)
    const { suspendedAt, allowedCidrs, plan, ...more } = toRecordJson(exampleRecord())
    expect([suspendedAt, allowedCidrs, plan]).toEqual([null, [], null])
    const body = Object.entries(more).filter(([name]) => !TEXT_NAMES.some(text => text === name))
    expect(JSON.parse(encodeRecord(exampleRecord(), DIGEST, RECORD_KEY))).toEqual({
      v: 1,
      ...Object.fromEntries(body),
      mac: expect.stringMatching(/^[A-Za-z0-9_-]{43}$/),
    })
    expect(toRecordJson(exampleRecord({ revokedAtMs: NOW_MS }))).toMatchObject({
      createdAt: '2026-11-19T09:00:00.000Z',
      revokedAt: '2026-11-20T09:00:00.000Z',
    })
  })

  it('contains neither secret nor digest', () => {
    expect(encodeRecord(exampleRecord(), DIGEST, RECORD_KEY)).not.toContain(DIGEST)
  })

  it('has no MAC without a signing secret, and is then accepted only if none is required', () => {
    const text = encodeRecord(exampleRecord(), DIGEST, null)
    expect(JSON.parse(text)).not.toHaveProperty('mac')
    expect(whyNot(text, null)).toBe('accepted')
    expect(whyNot(text)).toBe('bad_mac')
    expect(whyNot(text, [])).toBe('bad_mac')
  })

  it('is not encoded if no reader could decode it', () => {
    for (const changes of [
      { workspaceId: '..' },
      { workspaceId: 'a/b' },
      { scopes: ['a b'] },
      { version: 1.5 },
    ]) {
      expect(
        () => encodeRecord(exampleRecord(changes), DIGEST, RECORD_KEY),
        JSON.stringify(changes),
      ).toThrow()
    }
  })

  it('is accepted with any active signing secret, so that secrets can be rotated', () => {
    const text = encodeRecord(exampleRecord(), DIGEST, OTHER_RECORD_KEY)
    expect(whyNot(text, [RECORD_KEY, OTHER_RECORD_KEY])).toBe('accepted')
    expect(whyNot(text, [RECORD_KEY])).toBe('bad_mac')
  })
})

describe('the networks of a record without a MAC', () => {
  const restrictedTo = (allowedCidrs: unknown) =>
    decodeRecord(tampered({ mac: undefined, allowedCidrs }), DIGEST, null)
  const networks = Array.from({ length: 33 }, (_, index) => `10.${index}.0.0/16`)

  it('are none if the record names none', () => {
    for (const none of [undefined, null, []]) {
      expect(restrictedTo(none)).toMatchObject({ ok: true, grant: { allowedCidrs: [] } })
    }
  })

  it('are at most 32', () => {
    // A record holds them in order.
    const most = networks.slice(1).toSorted()
    expect(restrictedTo(most)).toMatchObject({ ok: true, grant: { allowedCidrs: most } })
    expect(restrictedTo(networks)).toMatchObject({ ok: false })
  })
})

describe('the plan of a record without a MAC', () => {
  const planned = (plan: unknown) => decodeRecord(tampered({ mac: undefined, v: 3, plan }), DIGEST, null)

  it('is none if the record names none', () => {
    for (const none of [undefined, null]) {
      expect(planned(none)).toMatchObject({ ok: true, grant: { plan: null } })
    }
  })

  it('is its name, whether or not a gateway knows it', () => {
    expect(planned('business-2')).toMatchObject({ ok: true, grant: { plan: 'business-2' } })
  })

  it.each([[''], ['Business'], ['a'.repeat(33)], ['a:b'], [7], [['free']]])('is not %j', plan => {
    expect(planned(plan)).toEqual({ ok: false, why: 'malformed' })
  })
})

describe('a release that knows only the first schema', () => {
  const schemaOf = (changes: Partial<KeyRecord>) =>
    (JSON.parse(encodeRecord(exampleRecord(changes), DIGEST, RECORD_KEY)) as Json)['v']
  const restrictions = { suspendedAtMs: NOW_MS, allowedCidrs: ['192.0.2.0/24'], plan: 'free' }

  it.each<[string, Partial<KeyRecord>]>([
    ['suspended', { suspendedAtMs: NOW_MS }],
    ['restricted to networks', { allowedCidrs: ['192.0.2.0/24'] }],
  ])('cannot overlook that a key is %s: it rejects the schema of the record', (_, changes) => {
    expect(schemaOf(changes)).toBe(2)
  })

  it('cannot overlook that other rate limits hold for a key, restricted or not: nor can one that knows the second', () => {
    expect([schemaOf({ plan: 'free' }), schemaOf({ plan: 'free', suspendedAtMs: NOW_MS })]).toEqual([3, 3])
  })

  it('reads every other record, and sees a revoked key as revoked', () => {
    expect(schemaOf({})).toBe(1)
    expect(schemaOf({ description: 'for people' })).toBe(1)
    expect(schemaOf({ ...restrictions, revokedAtMs: NOW_MS })).toBe(1)
  })

  it('wrote MACs that are valid today', () => {
    const { mac } = JSON.parse(encodeRecord(exampleRecord(), DIGEST, RECORD_KEY)) as Json
    expect(mac).toBe('UzhNK4UI238UMKwhqfbKZQanuI_Fia4i8iAxPRlBodI')
  })
})

describe('write access to Redis makes no key valid: the MAC is invalid after a change of', () => {
  it.each([
    ['id', { id: 'key_other' }],
    ['workspaceId', { workspaceId: 'ws_B' }],
    ['scopes, one more', { scopes: ['admin', 'files:read', 'workspace:read'] }],
    ['scopes, one less', { scopes: ['files:read'] }],
    ['scopes, two joined', { scopes: ['files:read,workspace:read'] }],
    ['hint', { hint: 'wsk_…0000' }],
    ['expiresAt', { expiresAt: '2027-11-20T09:00:00.000Z' }],
    ['expiresAt by a millisecond', { expiresAt: new Date(exampleRecord().expiresAtMs + 1).toISOString() }],
    ['revokedAt', { revokedAt: '2026-11-20T09:00:00.000Z' }],
    ['version', { version: 2 }],
    ['mac', { mac: 'A'.repeat(43) }],
    ['mac, left out', { mac: undefined }],
    ['mac, null', { mac: null }],
    ['mac, a list', { mac: [] }],
  ])('%s', (_, changes) => {
    expect(whyNot(tampered(changes))).toBe('bad_mac')
  })

  const suspended = exampleRecord({ suspendedAtMs: NOW_MS })
  const restricted = exampleRecord({ allowedCidrs: ['192.0.2.0/24'] })
  const planned = exampleRecord({ plan: 'free' })
  it.each<[string, Json, KeyRecord]>([
    ['suspendedAt, set back to null', { suspendedAt: null }, suspended],
    ['suspendedAt, left out, in the first schema', { suspendedAt: undefined, v: 1 }, suspended],
    ['suspendedAt, added', { suspendedAt: '2026-11-20T09:00:00.000Z' }, exampleRecord()],
    ['allowedCidrs, emptied', { allowedCidrs: [] }, restricted],
    ['allowedCidrs, left out, in the first schema', { allowedCidrs: undefined, v: 1 }, restricted],
    ['allowedCidrs, widened', { allowedCidrs: ['192.0.0.0/16'] }, restricted],
    ['allowedCidrs, added', { allowedCidrs: ['192.0.2.0/24'] }, exampleRecord()],
    ['plan, changed', { plan: 'business' }, planned],
    ['plan, left out', { plan: undefined }, planned],
    ['plan, left out, in the first schema', { plan: undefined, v: 1 }, planned],
    ['plan, added', { plan: 'business' }, exampleRecord()],
    ['plan, added, in the third schema', { plan: 'business', v: 3 }, restricted],
  ])('%s', (_, changes, record) => {
    expect(whyNot(tampered(changes, record))).toBe('bad_mac')
  })

  it('revokedAt, set back to null', () => {
    expect(whyNot(tampered({ revokedAt: null }, exampleRecord({ revokedAtMs: NOW_MS })))).toBe('bad_mac')
  })

  it('the key under which it is stored', () => {
    const text = encodeRecord(exampleRecord(), DIGEST, RECORD_KEY)
    expect(decodeRecord(text, OTHER_DIGEST, [RECORD_KEY])).toEqual({ ok: false, why: 'bad_mac' })
  })

  it('but not of a field that affects no decision, such as the name', () => {
    expect(whyNot(tampered({ name: 'x', createdBy: 'y', rotatedFrom: 'z', replacedBy: 'k' }))).toBe(
      'accepted',
    )
  })
})

describe('a reader', () => {
  it('ignores unknown fields, so that an older reader understands a newer writer', () => {
    expect(whyNot(tampered({ region: 'eu', limits: { perMinute: 5 }, __proto: 1 }))).toBe('accepted')
  })

  it.each([4, 0, '1', null, true, [1]])('rejects an unknown schema: %j', v => {
    expect(whyNot(tampered({ v }))).toBe('unknown_schema')
    expect(whyNot(tampered({ v }), null)).toBe('unknown_schema')
  })

  it('accepts a record of another key service without a schema version', () => {
    expect(whyNot(tampered({ v: undefined, mac: undefined }), null)).toBe('accepted')
  })

  it.each<[string, Json]>([
    ['no id', { id: undefined }],
    ['an empty id', { id: '' }],
    ['an id with a line break', { id: 'key_\r\nX: 1' }],
    ['an id that is no string', { id: 5 }],
    ['no workspace', { workspaceId: undefined }],
    ['a workspace that is no segment', { workspaceId: 'a/b' }],
    ['a workspace that is a dot segment', { workspaceId: '..' }],
    ['several workspaces', { workspaceId: ['ws_A'] }],
    ['no scopes', { scopes: undefined }],
    ['scopes that are a string', { scopes: 'files:read' }],
    ['a scope with a space', { scopes: ['files:read admin'] }],
    ['a scope with a quote', { scopes: ['a"'] }],
    ['a scope that is no string', { scopes: [['files:read']] }],
    ['too many scopes', { scopes: Array.from({ length: 65 }, (_, index) => `s${index}`) }],
    ['a hint that is no string', { hint: 7 }],
    ['no expiry', { expiresAt: undefined }],
    ['an expiry of null', { expiresAt: null }],
    ['an expiry in numbers', { expiresAt: 4e12 }],
    ['an expiry in local time', { expiresAt: '2027-01-01T00:00:00' }],
    ['an expiry in a list', { expiresAt: ['2027-01-01T00:00:00Z'] }],
    ['an expiry after text', { expiresAt: 'x2027-01-01T00:00:00Z' }],
    ['an expiry before text', { expiresAt: '2027-01-01T00:00:00Z(x)' }],
    ['an expiry of another form', { expiresAt: 'tomorrow' }],
    ['an expiry on a day that does not exist', { expiresAt: '2027-02-30T00:00:00Z' }],
    ['an expiry in the 13th month', { expiresAt: '2027-13-01T00:00:00Z' }],
    ['an expiry at hour 24', { expiresAt: '2027-01-01T24:00:00Z' }],
    ['a revocation that cannot be read', { revokedAt: 'yes' }],
    ['a revocation of true', { revokedAt: true }],
    ['a revocation that is an empty string', { revokedAt: '' }],
    ['an unreadable suspension', { suspendedAt: 'yes' }],
    ['networks that are a string', { allowedCidrs: '10.0.0.0/8' }],
    ['an invalid network', { allowedCidrs: ['10.0.0.0/8', 'all'] }],
    ['a network that is not a string', { allowedCidrs: [10] }],
    ['too many networks', { allowedCidrs: Array.from({ length: 33 }, (_, index) => `10.0.0.${index}`) }],
    ['no version', { version: undefined }],
    ['a negative version', { version: -1 }],
    ['a version that is no whole number', { version: 1.5 }],
    ['a version that is a string', { version: '1' }],
    ['a version beyond what a database can hold', { version: 2 ** 31 }],
  ])('rejects a record with %s, even from a trusted source', (_, changes) => {
    expect(whyNot(tampered(changes), null)).toBe('malformed')
    expect(whyNot(tampered(changes))).toBe('malformed')
  })

  it.each([
    ['2027-01-01T00:00:00Z', '2027-01-01T00:00:00.000Z'],
    ['2027-01-01T00:00:00.5Z', '2027-01-01T00:00:00.500Z'],
    ['2027-01-01T00:00:00.123Z', '2027-01-01T00:00:00.123Z'],
    ['2027-01-01T00:00:00.123456Z', '2027-01-01T00:00:00.123Z'],
    ['2027-01-01T00:00:00.999999999Z', '2027-01-01T00:00:00.999Z'],
    ['2027-01-01T00:00:00.123456+00:00', '2027-01-01T00:00:00.123Z'],
    ['2027-01-01T02:00:00+02:00', '2027-01-01T00:00:00.000Z'],
  ])('reads the instant %s, as the clocks of many languages write it', (at, read) => {
    const changes = { expiresAt: at, revokedAt: at, mac: undefined, v: undefined }
    const ms = Date.parse(read)
    const decoded = decodeRecord(tampered(changes), DIGEST, null)
    expect(decoded).toMatchObject({ ok: true, grant: { expiresAtMs: ms, revokedAtMs: ms } })
  })

  it('accepts a record of another key service without revocation and hint', () => {
    const decoded = decodeRecord(tampered({ revokedAt: undefined, hint: undefined }), DIGEST, null)
    expect(decoded).toMatchObject({ ok: true, grant: { revokedAtMs: null, hint: '' } })
  })

  it.each(['', ' ', 'null', '[]', '5', '"text"', '{', 'undefined', '[{"v":1}]', '\0'])(
    'rejects a text that is no record: %j',
    text => {
      expect(whyNot(text)).toBe('malformed')
    },
  )

  it('rejects an entry that is longer than any record of the console', () => {
    expect(whyNot(tampered({ name: 'x'.repeat(20_000) }))).toBe('malformed')
    expect(whyNot('['.repeat(1_000_000))).toBe('malformed')
  })

  it('returns a result for every text, and never throws', () => {
    fc.assert(
      fc.property(fc.oneof(fc.string(), fc.json()), text => {
        expect(decodeRecord(text, DIGEST, [RECORD_KEY]).ok).toBe(false)
      }),
    )
  })
})

it('a record of the longest hint, most scopes and most networks is accepted, at version 0', () => {
  const scopes = Array.from({ length: 64 }, (_, index) => `s${index}`)
  const allowedCidrs = Array.from({ length: 32 }, (_, index) => `10.0.0.${index}`)
  const most = { hint: 'h'.repeat(128), scopes, allowedCidrs, version: 0 }
  expect(whyNot(tampered({ ...most, mac: undefined, v: undefined }), null)).toBe('accepted')
  expect(whyNot(tampered({ hint: 'h'.repeat(129) }), null)).toBe('malformed')
})

it.each(['5', '"text"', 'null', 'true', '[]', '[{}]', '{', ''])('the text %j is no JSON object', text => {
  expect(parseJsonObject(text, 100)).toBeNull()
})

it('a JSON object of just the permitted length is read', () => {
  expect(parseJsonObject('{"a":1}', 7)).toEqual({ a: 1 })
  expect(parseJsonObject('{"a":1}', 6)).toBeNull()
})

it('a record that no reader would take is not written', () => {
  const record = { ...exampleRecord(), id: 'a b' }
  expect(() => encodeRecord(record, DIGEST, RECORD_KEY)).toThrow(
    'The record of a b has a field that no reader would take',
  )
})

it('messages have one channel', () => {
  expect(CHANGES_CHANNEL).toBe('postern:keys:changed')
})

it('a digest is exactly 64 lower-case hex digits', () => {
  expect(isDigest(DIGEST)).toBe(true)
  for (const text of ['', DIGEST.slice(1), `${DIGEST}\n`, DIGEST.toUpperCase(), `${DIGEST.slice(1)}*`]) {
    expect(isDigest(text)).toBe(false)
  }
})
