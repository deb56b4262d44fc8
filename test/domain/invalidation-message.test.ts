import { createHmac, hkdfSync } from 'node:crypto'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  decodeMessage,
  encodeMessage,
  type InvalidationMessage,
} from '../../src/domain/invalidation-message.ts'
import { digestNo, SIGNING_SECRET } from '../support/key-records.ts'
import { MESSAGE_KEY, OTHER_MESSAGE_KEY, readMessage } from '../support/messages.ts'

const DIGEST = digestNo(1)
const AT_MS = Date.parse('2026-11-20T09:00:00Z')
const sent = { region: 'default', sender: 'console-1', atMs: AT_MS } as const
const change = { kind: 'change', ...sent, digest: DIGEST, version: 7 } as const
const heartbeat = { kind: 'heartbeat', ...sent, monotonicMs: 5_000 } as const

/** As a key service in another language would compute it from docs/bring-your-own-keys.md. */
function macOf(signed: string): string {
  const key = Buffer.from(hkdfSync('sha256', SIGNING_SECRET, '', 'postern message mac v1', 32))
  return createHmac('sha256', key).update(signed).digest('base64url')
}

const isVerified = (text: string, keys: Parameters<typeof decodeMessage>[1] = [MESSAGE_KEY]) =>
  decodeMessage(text, keys)?.verified

describe('a message', () => {
  it('of a change contains digest, version, time, sender and MAC', () => {
    const text = encodeMessage(change, MESSAGE_KEY)
    const mac = macOf(`["change","default","console-1","${DIGEST}",7,${AT_MS}]`)
    expect(JSON.parse(text)).toEqual({ digest: DIGEST, version: 7, at: AT_MS, sender: 'console-1', mac })
    expect(decodeMessage(text, [MESSAGE_KEY])).toEqual({ ...change, verified: true })
  })

  it('of a heartbeat contains its sender, both of its clocks, and MAC', () => {
    const text = encodeMessage(heartbeat, MESSAGE_KEY)
    const mac = macOf(`["heartbeat","default","console-1",5000,${AT_MS}]`)
    expect(JSON.parse(text)).toEqual({ beat: 'console-1', monotonic: 5_000, at: AT_MS, mac })
    expect(decodeMessage(text, [MESSAGE_KEY])).toEqual({ ...heartbeat, verified: true })
  })

  it('of a key service with only a wall clock signs null for the monotonic clock', () => {
    const text = encodeMessage({ ...heartbeat, monotonicMs: null }, MESSAGE_KEY)
    const mac = macOf(`["heartbeat","default","console-1",null,${AT_MS}]`)
    expect(JSON.parse(text)).toEqual({ beat: 'console-1', at: AT_MS, mac })
    expect(isVerified(text)).toBe(true)
  })

  it('is verified with any active signing secret, and with no other', () => {
    for (const message of [change, heartbeat]) {
      const text = encodeMessage(message, OTHER_MESSAGE_KEY)
      expect(isVerified(text, [MESSAGE_KEY, OTHER_MESSAGE_KEY])).toBe(true)
      expect(isVerified(text, [MESSAGE_KEY])).toBe(false)
      expect(isVerified(text, [])).toBe(false)
      expect(isVerified(encodeMessage(message, null))).toBe(false)
    }
  })

  it('is verified without a MAC, or with any, if no signing secret is set', () => {
    for (const message of [change, heartbeat]) {
      for (const key of [null, MESSAGE_KEY]) {
        expect(decodeMessage(encodeMessage(message, key), null)).toEqual({ ...message, verified: true })
      }
    }
  })

  it('names its region and signs it; one of the only region names none', () => {
    const text = encodeMessage({ ...heartbeat, region: 'eu' }, MESSAGE_KEY)
    const mac = macOf(`["heartbeat","eu","console-1",5000,${AT_MS}]`)
    expect(JSON.parse(text)).toEqual({ beat: 'console-1', monotonic: 5_000, at: AT_MS, region: 'eu', mac })
    expect(JSON.parse(encodeMessage(heartbeat, MESSAGE_KEY))).not.toHaveProperty('region')
  })

  it('is verified in its own region and in no other, with a MAC and without signing secrets', () => {
    const regions = ['default', 'eu', 'us']
    for (const message of [change, heartbeat]) {
      for (const [region, reader] of regions.flatMap(a => regions.map(b => [a, b] as const))) {
        const text = encodeMessage({ ...message, region }, MESSAGE_KEY)
        expect(decodeMessage(text, [MESSAGE_KEY], reader)?.verified, text).toBe(region === reader)
        expect(decodeMessage(text, null, reader)?.verified, text).toBe(region === reader)
        // An attacker may rewrite the name.
        const renamed = JSON.stringify({ ...(JSON.parse(text) as object), region: reader })
        expect(decodeMessage(renamed, [MESSAGE_KEY], reader)?.verified, renamed).toBe(region === reader)
      }
    }
  })

  it('is not verified after a change of any signed field', () => {
    const altered: [InvalidationMessage, object][] = [
      [change, { digest: digestNo(2) }],
      [change, { version: 8 }],
      [change, { at: AT_MS + 1 }],
      [change, { region: 'eu' }],
      [change, { sender: 'console-2' }],
      [change, { sender: undefined }],
      [heartbeat, { region: 'eu' }],
      [heartbeat, { at: AT_MS + 1 }],
      [heartbeat, { monotonic: 5_001 }],
      [heartbeat, { monotonic: undefined }],
      [heartbeat, { beat: 'console-2' }],
    ]
    for (const [message, changes] of altered) {
      const json = JSON.parse(encodeMessage(message, MESSAGE_KEY)) as object
      expect(isVerified(JSON.stringify({ ...json, ...changes })), JSON.stringify(changes)).toBe(false)
    }
  })

  it.each([undefined, null, '', 5, [], 'x'.repeat(43), 'ä'.repeat(43), 'A'.repeat(44)])(
    'with the MAC %j is not verified',
    mac => {
      const json = JSON.parse(encodeMessage(change, MESSAGE_KEY)) as object
      expect(isVerified(JSON.stringify({ ...json, mac }))).toBe(false)
    },
  )

  it.each([
    '',
    'null',
    '[]',
    '{}',
    '{"beat":"a"}',
    '{"beat":"a","at":"1"}',
    '{"beat":"a","at":-1}',
    '{"beat":"a","at":1.5}',
    '{"beat":"","at":1}',
    '{"beat":5,"at":1}',
    '{"beat":"two words","at":1}',
    '{"beat":"a","at":1,"monotonic":-1}',
    '{"beat":"a","at":1,"monotonic":1.5}',
    '{"beat":"a","at":1,"monotonic":"1"}',
    `{"beat":"${'x'.repeat(65)}","at":1}`,
    '{"beat":"a","at":1,"region":5}',
    '{"beat":"a","at":1,"region":""}',
    '{"beat":"a","at":1,"region":null}',
    '{"beat":"a","at":1,"region":"EU"}',
    `{"digest":"${DIGEST}","version":1,"at":1,"region":["eu"]}`,
    `{"digest":"${DIGEST}","version":1}`,
    `{"digest":"${DIGEST}","at":1}`,
    `{"digest":"${DIGEST}","version":"1","at":1}`,
    `{"digest":"${DIGEST}","version":2147483648,"at":1}`,
    `{"digest":"${DIGEST}","version":1,"at":1,"sender":5}`,
    `{"digest":"${DIGEST.toUpperCase()}","version":1,"at":1}`,
    `{"digest":"${DIGEST}0","version":1,"at":1}`,
    `{"digest":"*","version":1,"at":1}`,
    `{"digest":5,"version":1,"at":1}`,
    `{"digest":"${DIGEST}","version":1,"at":1,"beat":"both"}`,
    `{"digest":"${DIGEST}","version":1,"at":1,"note":"${'x'.repeat(2000)}"}`,
  ])('is distinguished from other messages: %s', text => {
    expect(readMessage(text)).toBeNull()
  })

  it('may have a version up to the maximum of a database column', () => {
    expect(readMessage(`{"digest":"${DIGEST}","version":2147483647,"at":1}`)).toMatchObject({
      version: 2_147_483_647,
    })
  })

  it('ignores fields that a newer writer may add', () => {
    expect(readMessage('{"beat":"a","at":1,"load":5}')).toMatchObject({ kind: 'heartbeat', sender: 'a' })
  })

  it('is parsed or rejected for every text, and never verified by chance', () => {
    fc.assert(
      fc.property(fc.oneof(fc.string(), fc.json()), text => {
        expect(decodeMessage(text, [MESSAGE_KEY])?.verified ?? false).toBe(false)
      }),
    )
  })
})
