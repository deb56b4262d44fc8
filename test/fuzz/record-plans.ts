import type { KeyRecord } from '../../src/domain/key/key-record.ts'
import { encodeRecord } from '../../src/domain/wire.ts'
import { digestNo, OTHER_RECORD_KEY, RECORD_KEY, recordOf } from '../support/key-records.ts'
import type { AnswerPlan } from './answer-plans.ts'
import { chance, mutate } from './mutate.ts'

/** What the stores hold for one key, and the truth about it. */
export interface RecordPlan {
  readonly truth: KeyRecord
  /** Value in Redis, one character per byte; null for none. */
  readonly redis: string | null
  readonly keyService: AnswerPlan
  /** Whether the key service is honest: then its response decides, independent of Redis. */
  readonly keyServiceHonest: boolean
}

const YEAR_MS = 365 * 86_400_000

const PIECES = [
  '"workspaceId":"ws_2"',
  ',"workspaceId":"ws_2"',
  ',"revokedAt":null',
  ',"suspendedAt":null',
  ',"scopes":["files:read","workspace:read"]',
  ',"scopes":["*"]',
  ',"expiresAt":"2099-01-01T00:00:00.000Z"',
  ',"version":9007199254740991',
  ',"v":1',
  ',"v":2',
  ',"v":3',
  ',"mac":null',
  ',"mac":""',
  ',"__proto__":{"workspaceId":"ws_2"}',
  '"code":"not_found"',
  'null',
  'true',
  '[]',
  '{}',
  '{',
  '}',
  '[',
  ']',
  '"',
  ',',
  ':',
  '\\u0000',
  '\\u0077s_1',
  '1e400',
  '-0',
  '\0',
  '\xff',
  '\xef\xbb\xbf',
  ' ',
  '2099',
  'Z',
  '+00:00',
]
const ANSWER_PIECES = [
  ...PIECES,
  ' 404 ',
  ' 200 ',
  ' 500 ',
  'HTTP/1.1 200 OK\r\n',
  'Content-Length: 2\r\n',
  'Transfer-Encoding: chunked\r\n',
  'Location: http://127.0.0.1/\r\n',
  '\r\n',
  '\r\n\r\n',
]

type Forge = (json: Record<string, unknown>, record: KeyRecord, digest: string) => unknown

/** Well-formed records that were never signed, as a broken writer or an attacker with write access might store them. */
const FORGERIES: readonly Forge[] = [
  json => ({ ...json, workspaceId: 'ws_2' }),
  json => ({ ...json, workspaceId: 'WS_1' }),
  json => ({ ...json, scopes: ['files:read', 'workspace:read', 'admin'] }),
  json => ({ ...json, scopes: [] }),
  json => ({ ...json, revokedAt: null }),
  json => ({ ...json, revokedAt: undefined }),
  json => ({ ...json, expiresAt: '2099-01-01T00:00:00.000Z' }),
  json => ({ ...json, version: Number.MAX_SAFE_INTEGER }),
  json => ({ ...json, id: 'key_of_another' }),
  json => ({ ...json, hint: 'x' }),
  json => ({ ...json, v: 2 }),
  json => ({ ...json, mac: undefined }),
  json => ({ ...json, mac: [json['mac']] }),
  json => ({ ...json, pad: 'x'.repeat(1_000_000) }),
  json => [json],
  () => null,
  () => JSON.parse(`${'['.repeat(4000)}${']'.repeat(4000)}`),
  // Valid records of another key, another installation, another workspace.
  (_json, record) => JSON.parse(encodeRecord(record, digestNo(7), RECORD_KEY)),
  (_json, record, digest) => JSON.parse(encodeRecord(record, digest, OTHER_RECORD_KEY)),
  (json, record, digest) => ({
    ...json,
    workspaceId: 'ws_2',
    mac: JSON.parse(encodeRecord({ ...record, workspaceId: 'ws_3' }, digest, RECORD_KEY)).mac,
  }),
]

/** @param nowMs by the clock of the gateway under test */
export function recordPlan(seed: number, digest: string, nowMs: number): RecordPlan {
  const random = chance(seed)
  const pick = <Item>(items: readonly Item[]) => items[Math.floor(random() * items.length)] as Item
  const truth = recordOf({
    id: `key_${String(seed).padStart(26, '0')}`,
    scopes: pick([['files:read', 'workspace:read'], ['workspace:read'], []]),
    expiresAtMs: pick([nowMs + YEAR_MS, nowMs + YEAR_MS, nowMs - 60_000]),
    revokedAtMs: pick([null, null, nowMs - 60_000]),
    suspendedAtMs: pick([null, null, null, nowMs - 60_000]),
    version: 5,
  })
  const signed = encodeRecord(truth, digest, RECORD_KEY)
  const honest = contractAnswer(200, encodeRecord(truth, digest, null))
  const absent = contractAnswer(404, '{"code":"not_found","error":"No such key"}')
  switch (Math.floor(random() * 4)) {
    case 0:
      return plan(truth, forged(signed, truth, digest, pick(FORGERIES)), honest, true)
    case 1:
      return plan(truth, mutate(latin1(signed), random, PIECES), pick([honest, absent]), true)
    case 2: {
      const body = mutate(encodeRecord(truth, digest, null), random, PIECES)
      return plan(truth, null, contractAnswer(200, body), false)
    }
    default:
      return plan(
        truth,
        null,
        mutate(latin1(pick([honest, honest, absent])), random, ANSWER_PIECES),
        false,
        random(),
      )
  }
}

function plan(
  truth: KeyRecord,
  redis: string | null,
  bytes: string,
  keyServiceHonest: boolean,
  chanceOfEnd = 0,
): RecordPlan {
  const after = chanceOfEnd > 0.6 ? 'end' : 'keep'
  return { truth, redis, keyService: { bytes, pieces: [], after }, keyServiceHonest }
}

function forged(signed: string, record: KeyRecord, digest: string, forge: Forge): string {
  return latin1(JSON.stringify(forge(JSON.parse(signed), record, digest)) ?? '')
}

function contractAnswer(status: number, body: string): string {
  const bytes = latin1(body)
  return `HTTP/1.1 ${status} X\r\nContent-Type: application/json\r\nContent-Length: ${bytes.length}\r\n\r\n${bytes}`
}

/** One character for each byte of UTF-8. */
function latin1(text: string): string {
  return Buffer.from(text, 'utf8').toString('latin1')
}
