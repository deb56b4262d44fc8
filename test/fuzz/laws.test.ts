import { describe, expect, test } from 'vitest'
import { recordOf } from '../support/key-records.ts'
import { breachOf } from './answer-law.ts'
import type { AnswerPlan } from './answer-plans.ts'
import { isLawful } from './fuzz-requests.ts'
import { breachOfRecords } from './record-law.ts'
import type { RecordPlan } from './record-plans.ts'
import { readAnswer } from './strict-answer.ts'

const HEAD = 'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n'
const WHOLE = `${HEAD}Content-Length: 4\r\n\r\n"ab"`

function breach(given: string, seen: string, ended: 'open' | 'closed' | 'reset' = 'open'): string | null {
  const plan: AnswerPlan = { bytes: given, pieces: [], after: 'keep' }
  return breachOf(plan, { bytes: Buffer.from(seen, 'latin1'), ended })
}

/** Laws that nothing breaks would show nothing. */
describe('the law of answers', () => {
  test('a whole answer passes as it is', () => {
    expect(breach(WHOLE, WHOLE)).toBeNull()
    expect(breach(WHOLE, `${HEAD}Transfer-Encoding: chunked\r\n\r\n4\r\n"ab"\r\n0\r\n\r\n`)).toBeNull()
    expect(breach(`${HEAD}Transfer-Encoding: chunked\r\n\r\n4;a=\r\n"ab"\r\n0\r\n\r\n`, WHOLE)).toBeNull()
  })

  test.each<[string, string, string, ('open' | 'closed' | 'reset')?]>([
    ['a cut answer that looks whole', `${HEAD}Content-Length: 9\r\n\r\n"ab"`, WHOLE],
    ['an answer that only the close ended', `${HEAD}\r\n"ab"`, WHOLE],
    ['another body', WHOLE, WHOLE.replace('ab', 'xx')],
    ['another status', WHOLE, WHOLE.replace('200', '201')],
    ['another type', WHOLE, WHOLE.replace('application/json', 'text/html')],
    ['a field that may not pass', WHOLE, WHOLE.replace('\r\n\r\n', '\r\nServer: x\r\n\r\n')],
    ['bytes behind the answer', WHOLE, `${WHOLE}x`],
    ['no answer', WHOLE, '', 'closed'],
    ['an answer that never ends', WHOLE, `${HEAD}Content-Length: 5\r\n\r\n"ab"`],
    ['a whole answer that breaks off', WHOLE, `${HEAD}Content-Length: 4\r\n\r\n"a`, 'closed'],
    [
      'half an answer to HTTP/1.0, ended in order',
      `${HEAD}Content-Length: 9\r\n\r\n"ab"`,
      `${HEAD}\r\n"ab"`,
      'closed',
    ],
    ['a refusal in words that are not ours', WHOLE, 'HTTP/1.1 502 X\r\nContent-Length: 2\r\n\r\n{}'],
    ['a length and a coding', WHOLE, `${HEAD}Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n`],
  ])('is broken by %s', (_name, given, seen, ended) => {
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
  ])('its reader takes no %j', bytes => {
    expect(readAnswer(Buffer.from(bytes, 'latin1')).kind).not.toBe('whole')
  })
})

describe('the law of requests', () => {
  const lawful = [
    'GET /api/v1/workspaces/ws_1 HTTP/1.1',
    'host: up',
    'x-postern-workspace-id: ws_1',
    'x-forwarded-for: 127.0.0.1',
    '',
    '',
  ].join('\r\n')

  test('is kept by what the gateway sends, and broken by anything else', () => {
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

describe('the law of records', () => {
  const nowMs = Date.parse('2026-12-01T00:00:00Z')
  const truth = recordOf()
  const absent = 'HTTP/1.1 404 No\r\nContent-Length: 20\r\n\r\n{"code":"not_found"}'
  const planOf = (bytes: string): RecordPlan => ({
    truth,
    redis: null,
    keyService: { bytes, pieces: [], after: 'keep' },
    keyServiceHonest: false,
  })

  test('nobody is granted what no source said, nor denied what none denied', () => {
    const refused = (code: string) => ({ kind: 'refused', code }) as const
    expect(breachOfRecords(planOf(absent), refused('key_invalid'), nowMs)).toBeNull()
    expect(breachOfRecords(planOf(absent), { kind: 'granted', grant: {} }, nowMs)).not.toBeNull()
    expect(breachOfRecords(planOf('rubbish'), refused('key_store_unavailable'), nowMs)).toBeNull()
    expect(breachOfRecords(planOf('rubbish'), refused('key_invalid'), nowMs)).not.toBeNull()
  })
})
