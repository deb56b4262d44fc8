import { describe, expect, test } from 'vitest'
import { EXCHANGE_ABORTED } from '../../../src/upstream/pool/failure.ts'
import { ScriptedExchange, type Stage } from '../../support/scripted-exchange.ts'

const at = (stage: Stage, options: ConstructorParameters<typeof ScriptedExchange>[0] = {}) =>
  new ScriptedExchange(options).to(stage)
const lost = () => Object.assign(new Error('lost'), { code: 'ECONNRESET' })
const CHUNKED = { 'transfer-encoding': 'chunked' }

describe('an exchange', () => {
  test('delivers a response with the time that it took, and frees its connection', () => {
    const one = at('queued')
    one.nowMs = 5
    one.to('waiting')
    one.nowMs = 12
    one.head(200, { 'content-length': '4' })
    expect(one.exchange).toMatchObject({ statusCode: 200, headers: { 'content-length': '4' }, waitedMs: 12 })
    one.data('ab')
    one.data('cd')
    one.exchange.onResponseEnd()
    expect(one.seen).toEqual(['carry', 'head', 'onHead', 'write ab', 'write cd', 'end', 'released whole'])
    expect(one.controller.rawHeaders).toBeNull()
  })

  test('delivers a body in one piece if it arrives as one', () => {
    const one = at('waiting')
    one.head(200, { 'content-length': '4' })
    one.data('abcd')
    one.exchange.onResponseEnd()
    expect(one.seen.slice(2)).toEqual(['onHead', 'writeAll abcd', 'end', 'released whole'])
    const inPieces = at('waiting', { inPieces: true })
    inPieces.head(200, { 'content-length': '4' })
    inPieces.data('abcd')
    expect(inPieces.seen.at(-1)).toBe('write abcd')
    const chunked = at('waiting')
    chunked.head(200, CHUNKED)
    chunked.data('abcd')
    expect(chunked.seen.at(-1)).toBe('write abcd')
  })

  test.each<[Stage, readonly string[]]>([
    ['queued', ['withdraw', 'failed preempted', 'onFailure preempted 30']],
    ['connecting', ['withdraw', 'failed preempted', 'onFailure preempted 30']],
    ['waiting', ['abort preempted', 'failed preempted', 'onFailure preempted 30', 'released broken']],
    ['streaming', ['abort preempted', 'failed preempted', 'fail preempted', 'released broken']],
    ['discarding', ['abort Exchange', 'released broken']],
    ['aborted', []],
    ['ended', []],
  ])('that is %s can be preempted, and its client learns of it', (stage, expected) => {
    const one = at(stage)
    one.nowMs = 30
    expect(one.since(() => one.exchange.preempt())).toEqual(expected)
    expect(one.since(() => one.exchange.preempt())).toEqual([])
  })

  test.each<[Stage, readonly string[]]>([
    ['queued', ['withdraw']],
    ['connecting', ['withdraw']],
    ['waiting', ['abort Exchange', 'released broken']],
    ['streaming', ['abort Exchange', 'released broken']],
    // It may still be read to its end.
    ['discarding', []],
    ['aborted', []],
    ['ended', []],
  ])('that is %s ends without an outcome if its client disconnects', (stage, expected) => {
    const one = at(stage)
    expect(one.since(() => one.exchange.abort())).toEqual(expected)
    expect(one.since(() => one.exchange.abort())).toEqual([])
  })

  test.each<[Stage, string | null]>([
    ['queued', 'onFailure headers_timeout 100'],
    ['connecting', 'onFailure headers_timeout 100'],
    ['waiting', 'onFailure headers_timeout 100'],
    ['streaming', 'fail body_timeout'],
    ['discarding', null],
    ['aborted', null],
    ['ended', null],
  ])('that is %s ends at its deadline', (stage, outcome) => {
    const one = at(stage)
    const check = () => one.since(() => one.exchange.checkDeadline(one.nowMs))
    one.nowMs = 99
    expect(check()).toEqual([])
    one.nowMs = 100
    const seen = check()
    expect(seen.find(event => /^onFailure|^fail /.test(event)) ?? null).toBe(outcome)
    expect(seen.includes('abort body_timeout')).toBe(stage === 'streaming' || stage === 'discarding')
    expect(check()).toEqual([])
  })

  test('whose body goes on is not idle', () => {
    const one = at('streaming')
    one.nowMs = 99
    one.data('a')
    one.exchange.checkDeadline(99)
    one.nowMs = 198
    expect(one.since(() => one.exchange.checkDeadline(198))).toEqual([])
  })

  test('that cannot be connected fails', () => {
    const one = at('connecting')
    const refused = Object.assign(new Error('?'), { code: 'ECONNREFUSED', syscall: 'connect' })
    expect(one.since(() => one.exchange.onResponseError(one.controller, refused))).toEqual([
      'failed refused',
      'onFailure refused 0',
      'released broken',
    ])
  })

  test('whose abort is still under way has no further outcome', () => {
    const one = at('streaming', { next: 'pause', lingers: true })
    one.data('a')
    one.exchange.checkDeadline(0)
    one.exchange.abort()
    expect(one.seen.at(-1)).toBe('abort Exchange')
    one.nowMs = 5000
    const later = one.since(() => {
      for (const nowMs of [70, 5000]) one.exchange.checkDeadline(nowMs)
      one.exchange.preempt()
      one.exchange.abort()
      one.exchange.resume()
    })
    expect(later).toEqual([])
    expect(one.exchange.preemptionCandidate(0)).toBeNull()
  })

  test('whose client reads nothing ends as the client’s fault, not the upstream’s', () => {
    const one = at('streaming', { next: 'pause' })
    one.data('a')
    one.exchange.checkDeadline(0)
    one.nowMs = 60
    expect(one.since(() => one.exchange.checkDeadline(60))).toEqual([
      'fail null',
      'abort Exchange',
      'released broken',
    ])
  })
})

test('reading pauses while the client does not, and resumes once', () => {
  const one = at('streaming', { next: 'pause' })
  const resume = () => one.since(() => one.exchange.resume())
  expect(resume()).toEqual([])
  expect(one.since(() => one.data('a'))).toEqual(['write a', 'pause'])
  expect(resume()).toEqual(['resume'])
  expect(resume()).toEqual([])
  one.data('b')
  one.exchange.abort()
  expect(resume()).toEqual([])
})

test.each<[Stage, string | null]>([
  ['queued', null],
  ['connecting', null],
  ['waiting', 'waiting'],
  ['streaming', 'streaming'],
  ['discarding', 'discarding'],
  ['aborted', null],
  ['ended', null],
])('an exchange that is %s counts for preemption as %s', (stage, counted) => {
  const one = at(stage)
  const candidate = one.exchange.preemptionCandidate(7)
  const stalledMs = 0
  const expected = { exchange: one.exchange, workspaceId: 'ws_1', stage: counted, stalledMs, startedAtMs: 0 }
  expect(candidate).toEqual(counted === null ? null : expected)
})

test('an exchange that was aborted while it connected sends nothing, and still frees its connection', () => {
  const one = at('connecting')
  one.exchange.abort()
  expect(() => one.exchange.onRequestStart(one.controller)).toThrow(EXCHANGE_ABORTED)
  one.head(200, { 'content-length': '1' })
  expect(one.since(() => one.exchange.onResponseError(one.controller, EXCHANGE_ABORTED))).toEqual([
    'released broken',
  ])
  expect(one.seen).not.toContain('head')
})

test('an exchange that was aborted in the queue is not revived by a connection', () => {
  const one = at('queued')
  one.exchange.abort()
  one.exchange.sendOn(one.client)
  expect(() => one.exchange.onRequestStart(one.controller)).toThrow(EXCHANGE_ABORTED)
})

describe('interim responses', () => {
  test('are skipped up to ten', () => {
    const one = at('waiting')
    for (let count = 0; count < 10; count++) one.head(count === 0 ? 199 : 103, {})
    expect(one.seen).toEqual(['carry'])
    expect(one.since(() => one.head(103, {}))).toContain('abort protocol')
  })

  test('a switch of protocols was not asked for', () => {
    expect(at('waiting').since(one => one.head(101, {}))).toContain('abort protocol')
  })
})

test('a head that does not say where its body ends is a protocol error', () => {
  const one = at('waiting')
  expect(one.since(() => one.head(200, {}))).toEqual([
    'abort protocol',
    'failed protocol',
    'onFailure protocol 0',
    'released broken',
  ])
})

describe('a body that is not needed', () => {
  test('is read to its end if it is short, and the connection is reused', () => {
    const one = at('discarding')
    one.data('x'.repeat(64 * 1024))
    one.exchange.onResponseEnd()
    expect(one.seen.slice(-2)).toEqual(['onHead', 'released whole'])
  })

  test('is not waited for if it is long', () => {
    const one = at('discarding')
    expect(one.since(() => one.data('x'.repeat(64 * 1024 + 1)))).toEqual([
      'abort Exchange',
      'released broken',
    ])
  })

  test('is discarded from where the client needs no more', () => {
    const one = at('streaming', { next: 'discard' })
    expect(one.since(() => one.data('a'))).toEqual(['write a'])
    expect(one.since(() => one.data('b'))).toEqual([])
    expect(one.exchange.preemptionCandidate(0)?.stage).toBe('discarding')
  })

  test('stays aborted if the client disconnects while it is written', () => {
    const one = at('streaming', { next: 'discard', onWrite: exchange => exchange.abort() })
    one.data('a')
    expect(one.exchange.preemptionCandidate(0)).toBeNull()
  })

  test('is not delivered if the exchange ended while its head was', () => {
    const one = at('waiting', { onHead: exchange => exchange.preempt() })
    one.head(200, { 'content-length': '2' })
    expect(one.since(() => one.data('ab'))).toEqual([])
  })
})

describe('a lost connection', () => {
  const loss = (stage: Stage, untouched: boolean, error: Error = lost()) => {
    const one = at(stage, { untouched })
    return { one, seen: one.since(() => one.exchange.onResponseError(one.controller, error)) }
  }

  test.each<Stage>(['connecting', 'waiting'])(
    'is retried once while %s, if it was stale: no byte of a response has arrived',
    stage => {
      const { one, seen } = loss(stage, true)
      expect([seen, one.exchange.retried]).toEqual([['resend'], true])
      one.exchange.sendOn(one.client)
      one.exchange.onRequestStart(one.controller)
      expect(one.since(() => one.exchange.onResponseError(one.controller, lost()))).toEqual([
        'failed reset',
        'onFailure reset 0',
        'released broken',
      ])
    },
  )

  test('is no reason for a retry if the connection was new, or a byte has arrived', () => {
    expect(loss('waiting', false).seen).toContain('onFailure reset 0')
  })

  test('is no reason for a retry within the body, or after the client has disconnected', () => {
    expect(loss('streaming', true).seen).toEqual(['failed reset', 'fail reset', 'released broken'])
    expect(loss('discarding', true).seen).toEqual(['released broken'])
  })

  test('is no protocol error, which is not retried', () => {
    expect(loss('waiting', true, new Error('?')).seen).toContain('onFailure reset 0')
  })
})

test('an error in the last step of a response frees the connection once', () => {
  const one = at('streaming', { onEnd: () => expect.unreachable() })
  expect(() => one.exchange.onResponseEnd()).toThrow()
  one.exchange.onResponseError(one.controller, new Error('from onResponseEnd'))
  one.exchange.onResponseError(one.controller, new Error('again'))
  expect(one.seen.filter(event => event.startsWith('released'))).toEqual(['released broken'])
})
