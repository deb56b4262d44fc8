import { describe, expect, test } from 'vitest'
import { recordOf } from '../support/key-records.ts'
import { breachOf } from './answer-law.ts'
import type { AnswerPlan } from './answer-plans.ts'
import { type Beside, breachesBeside } from './beside.ts'
import {
  breachesOfConnection,
  breachesOfReading,
  type SeenAnswer,
  type SeenConnection,
} from './connection-law.ts'
import {
  type ConnectionPlan,
  connectionsPlan,
  type Piece,
  type Step,
  segmentsOf,
} from './connection-plans.ts'
import { isLawful } from './fuzz-requests.ts'
import { breachOfRecords } from './record-law.ts'
import type { RecordPlan } from './record-plans.ts'
import { readResponse } from './strict-answer.ts'

const HEAD = 'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n'
const WHOLE = `${HEAD}Content-Length: 4\r\n\r\n"ab"`

function breach(given: string, seen: string, ended: 'open' | 'closed' | 'reset' = 'open'): string | null {
  const plan: AnswerPlan = { bytes: given, pieces: [], after: 'keep' }
  return breachOf(plan, { bytes: Buffer.from(seen, 'latin1'), ended })
}

/** A check that nothing violates would prove nothing. */
describe('the check of responses', () => {
  test('accepts a complete response unchanged', () => {
    expect(breach(WHOLE, WHOLE)).toBeNull()
    expect(breach(WHOLE, `${HEAD}Transfer-Encoding: chunked\r\n\r\n4\r\n"ab"\r\n0\r\n\r\n`)).toBeNull()
    expect(breach(`${HEAD}Transfer-Encoding: chunked\r\n\r\n4;a=\r\n"ab"\r\n0\r\n\r\n`, WHOLE)).toBeNull()
  })

  test.each<[string, string, string, ('open' | 'closed' | 'reset')?]>([
    ['a truncated response that looks complete', `${HEAD}Content-Length: 9\r\n\r\n"ab"`, WHOLE],
    ['a response that only the close delimits', `${HEAD}\r\n"ab"`, WHOLE],
    ['another body', WHOLE, WHOLE.replace('ab', 'xx')],
    ['another status', WHOLE, WHOLE.replace('200', '201')],
    ['another type', WHOLE, WHOLE.replace('application/json', 'text/html')],
    ['a field outside the allow-list', WHOLE, WHOLE.replace('\r\n\r\n', '\r\nServer: x\r\n\r\n')],
    ['bytes after the response', WHOLE, `${WHOLE}x`],
    ['no answer', WHOLE, '', 'closed'],
    ['a response that never ends', WHOLE, `${HEAD}Content-Length: 5\r\n\r\n"ab"`],
    ['a complete response that is truncated', WHOLE, `${HEAD}Content-Length: 4\r\n\r\n"a`, 'closed'],
    [
      'half a response to HTTP/1.0, closed orderly',
      `${HEAD}Content-Length: 9\r\n\r\n"ab"`,
      `${HEAD}\r\n"ab"`,
      'closed',
    ],
    ['a denial with an unknown text', WHOLE, 'HTTP/1.1 502 X\r\nContent-Length: 2\r\n\r\n{}'],
    ['a length and a coding', WHOLE, `${HEAD}Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n`],
  ])('rejects %s', (_name, given, seen, ended) => {
    expect(breach(given, seen, ended)).not.toBeNull()
  })

  test.each([
    'HTTP/1.1 200 OK\nContent-Length: 0\n\n',
    'HTTP/1.1 200 OK\r\nContent-Length : 0\r\n\r\n',
    'HTTP/1.1 200 OK\r\nContent-Length: +0\r\n\r\n',
    'HTTP/1.1 200 OK\r\nContent-Length: 0\r\nContent-Length: 0\r\n\r\n',
    'HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n',
    'HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
    'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n0\r\n\r\n',
    'HTTP/1.1 200 OK\r\nX: a\r\n b\r\n\r\n',
  ])('its parser rejects %j', bytes => {
    expect(readResponse(Buffer.from(bytes, 'latin1')).kind).not.toBe('whole')
  })
})

describe('the check of requests', () => {
  const lawful = [
    'GET /api/v1/workspaces/ws_1 HTTP/1.1',
    'host: up',
    'x-postern-workspace-id: ws_1',
    'x-forwarded-for: 127.0.0.1',
    '',
    '',
  ].join('\r\n')

  test('accepts what the gateway sends, and rejects anything else', () => {
    expect(isLawful(lawful, 'wsk_secret')).toBe(true)
    for (const broken of [
      lawful.replace('ws_1 HTTP', 'ws_2 HTTP'),
      lawful.replace('id: ws_1', 'id: ws_2'),
      lawful.replace('host: up', 'host: up\r\nauthorization: x'),
      lawful.replace('host: up', 'host: up\r\nhost: up'),
      lawful.replace('host: up', 'host: wsk_secret'),
    ])
      expect(isLawful(broken, 'wsk_secret')).toBe(false)
  })
})

describe('the check of records', () => {
  const nowMs = Date.parse('2026-12-01T00:00:00Z')
  const truth = recordOf()
  const absent = 'HTTP/1.1 404 No\r\nContent-Length: 20\r\n\r\n{"code":"not_found"}'
  const planOf = (bytes: string): RecordPlan => ({
    truth,
    redis: null,
    keyService: { bytes, pieces: [], after: 'keep' },
    keyServiceHonest: false,
  })

  test('rejects grants that no source gave, and denials that no source justifies', () => {
    const refused = (code: string) => ({ kind: 'refused', code }) as const
    expect(breachOfRecords(planOf(absent), refused('key_invalid'), nowMs)).toBeNull()
    expect(breachOfRecords(planOf(absent), { kind: 'granted', grant: {} }, nowMs)).not.toBeNull()
    expect(breachOfRecords(planOf('rubbish'), refused('key_store_unavailable'), nowMs)).toBeNull()
    expect(breachOfRecords(planOf('rubbish'), refused('key_invalid'), nowMs)).not.toBeNull()
  })
})

describe('the check of connections', () => {
  const request = (name: string, more: Partial<Piece> = {}): Piece => ({
    text: `GET /${name} HTTP/1.1\r\nX-Request-Id: {id}-${name}\r\n\r\n`,
    statuses: [200],
    after: 'open',
    marker: `{id}-${name}`,
    answeredByName: true,
    effect: 'forwarded',
    ...more,
  })
  const refused: Piece = { text: '?', statuses: [400], after: 'end' }
  const planOf = (pieces: readonly Piece[], ...steps: readonly Step[]): ConnectionPlan => ({
    listener: 'gateway',
    steps: [{ do: 'send', pieces }, ...steps],
  })
  const answer = (id: string | null, status = 200): SeenAnswer => ({ status, id, closes: status === 400 })
  const seen = (answers: readonly SeenAnswer[], more: Partial<SeenConnection> = {}): SeenConnection => ({
    answers,
    rest: null,
    ended: 'closed',
    effects: ['c-a', 'c-b'],
    ...more,
  })
  const plan = planOf([request('a'), request('b'), refused, request('c')])
  const whole = seen([answer('c-a'), answer('c-b'), answer('own', 400)])

  test('accepts responses in request order with nothing after the end', () => {
    expect(breachesOfConnection(plan, 'c', whole)).toEqual([])
  })

  test.each<[string, SeenConnection]>([
    ['a missing response', seen(whole.answers.slice(0, 2))],
    ['responses in another order', seen([answer('c-b'), answer('c-a'), answer('own', 400)])],
    ['a response with the name of another', seen([answer('c-a'), answer('c-b'), answer('c-c', 400)])],
    ['another status', seen([answer('c-a'), answer('c-b', 502), answer('own', 400)])],
    ['a response after the end', seen([...whole.answers, answer('c-c')])],
    ['a forwarded request after the end', { ...whole, effects: ['c-a', 'c-b', 'c-c'] }],
    ['a request that is forwarded twice', { ...whole, effects: ['c-a', 'c-b', 'c-b'] }],
    ['a response to a request that was not forwarded', { ...whole, effects: ['c-a'] }],
    ['half a response', { ...whole, rest: 'HTTP/1.1 200' }],
    ['a connection that stays open after its end', { ...whole, ended: 'open' }],
  ])('rejects %s', (_name, broken) => {
    expect(breachesOfConnection(plan, 'c', broken)).not.toEqual([])
  })

  test('requires no response for a client that disconnects, and nothing more to be read from it', () => {
    const left = planOf([request('a'), refused, request('b')], { do: 'destroy' })
    expect(breachesOfConnection(left, 'c', seen([], { effects: ['c-a'] }))).toEqual([])
    expect(breachesOfConnection(left, 'c', seen([], { effects: ['c-a', 'c-b'] }))).not.toEqual([])
  })

  test('requires a response, and then the close, for a client that half-closes', () => {
    const ended = planOf([request('a')], { do: 'half_close' })
    const one = seen([answer('c-a')], { effects: ['c-a'] })
    expect(breachesOfConnection(ended, 'c', one)).toEqual([])
    expect(breachesOfConnection(ended, 'c', { ...one, ended: 'open' })).not.toEqual([])
    expect(breachesOfConnection(ended, 'c', { ...one, answers: [] })).not.toEqual([])
  })

  test('relies on the response where the contract leaves open whether the connection closes', () => {
    const open = planOf([request('a', { after: 'as_answered' }), request('b')])
    const first = { ...answer('c-a'), closes: true }
    expect(breachesOfConnection(open, 'c', seen([first], { effects: ['c-a'] }))).toEqual([])
    expect(breachesOfConnection(open, 'c', seen([first, answer('c-b')]))).not.toEqual([])
    expect(breachesOfConnection(open, 'c', seen([answer('c-a')], { effects: ['c-a'] }))).not.toEqual([])
  })

  test('limits bytes read by the responses and by the end', () => {
    const flood = { ...request('a'), repeat: 100_000 }
    const bytes = segmentsOf([flood], {}).reduce((sum, { length }) => sum + length, 0)
    const reading = (pieces: readonly Piece[], read: number, answered: number) =>
      breachesOfReading(planOf(pieces), {}, 100, { read, answered })
    expect(reading([flood], bytes, 100_000 * 100)).toEqual([])
    expect(reading([flood], bytes, 1000 * 100)).not.toEqual([])
    expect(reading([refused, flood], bytes, 100_000 * 100)).not.toEqual([])
  })

  test('uses the same connections for the same seed', () => {
    expect(connectionsPlan(7)).toEqual(connectionsPlan(7))
    expect(connectionsPlan(7)).not.toEqual(connectionsPlan(8))
  })
})

describe('the check of side effects', () => {
  const figures = { sent: 9, failed: [], p99Ms: 1 }
  const beside: Beside = {
    honest: { gateway: figures, console: figures },
    atUpstream: [],
    peakInFlight: 17,
    peakMegabytes: { gateway: 384, console: 384 },
  }

  test('accepts served requests and resources within their bounds', () => {
    expect(breachesBeside(beside, 2)).toEqual([])
  })

  test.each<[string, Partial<Beside>]>([
    [
      'a failed request of a well-behaved client',
      { honest: { gateway: figures, console: { ...figures, failed: ['503'] } } },
    ],
    ['a request that must not reach the upstream', { atUpstream: ['GET /'] }],
    ['more than eight requests of a connection', { peakInFlight: 18 }],
    ['more memory than a pod has', { peakMegabytes: { gateway: 385, console: 1 } }],
  ])('rejects %s', (_name, broken) => {
    expect(breachesBeside({ ...beside, ...broken }, 2)).toHaveLength(1)
  })
})
