import { setImmediate as nextTurn } from 'node:timers/promises'
import { expect, test } from 'vitest'
import type { Permit } from '../../src/domain/authorize.ts'
import type { UpstreamExchange } from '../../src/upstream/pool/exchange.ts'
import type { UpstreamRequest } from '../../src/upstream/pool/exchange-parties.ts'
import { createSend } from '../../src/upstream/upstream.ts'

// Assertions of this test read nothing of it.
const PERMIT = {} as Permit

/** A pool whose exchanges the test sees, with assertions that it signs. */
function start(isReused = false, hasAssertions = true) {
  const state = { nowMs: 1000 }
  const signing = Promise.withResolvers<string>()
  const sent: { assertion: string | undefined; waitedMs: number | undefined }[] = []
  const seen: string[] = []
  const send = createSend(
    {
      nowMs: () => state.nowMs,
      send: (request, _handler, waitedMs) => {
        sent.push({ assertion: request.headers['x-postern-assertion'], waitedMs })
        // `Sending` is all that is used of it.
        return { abort: () => seen.push('aborted') } as unknown as UpstreamExchange
      },
    },
    hasAssertions ? { assertionFor: () => (isReused ? 'reused' : signing.promise) } : null,
  )
  const request: UpstreamRequest = { workspaceId: 'ws_1', path: '/', headers: {} }
  const handler = {
    onHead: () => null,
    onFailure: (failure: { kind: string }, waitedMs: number) =>
      void seen.push(`${failure.kind} after ${waitedMs} ms`),
  }
  return {
    state,
    signing,
    sent,
    seen,
    begin: (waitedMs?: number) => send(PERMIT, request, handler, waitedMs),
  }
}

test('without assertions a request is sent at once', () => {
  const { sent, begin } = start(false, false)
  begin(7)
  begin()
  expect(sent).toEqual([
    { assertion: undefined, waitedMs: 7 },
    { assertion: undefined, waitedMs: undefined },
  ])
})

test('an assertion that is reused is sent at once', () => {
  const { sent, seen, begin } = start(true)
  begin(7).abort()
  begin()
  expect([sent, seen]).toEqual([
    [
      { assertion: 'reused', waitedMs: 7 },
      { assertion: 'reused', waitedMs: 0 },
    ],
    ['aborted'],
  ])
})

test('the wait for a signature counts, together with an earlier one', async () => {
  const { state, signing, sent, seen, begin } = start()
  const sending = begin(7)
  begin()
  expect(sent).toEqual([])
  state.nowMs += 30
  signing.resolve('signed')
  await nextTurn()
  expect(sent).toEqual([
    { assertion: 'signed', waitedMs: 37 },
    { assertion: 'signed', waitedMs: 30 },
  ])
  sending.abort()
  expect(seen).toEqual(['aborted'])
})

test('without a signature nothing is sent, and the client learns of it', async () => {
  const { state, signing, sent, seen, begin } = start()
  begin(7)
  state.nowMs += 30
  signing.reject(new Error('no'))
  await nextTurn()
  expect([sent, seen]).toEqual([[], ['assertion after 37 ms']])
})

test.each(['resolve', 'reject'] as const)(
  'a client that disconnects before the signature is there causes nothing: %s',
  async how => {
    const { signing, sent, seen, begin } = start()
    begin().abort()
    if (how === 'resolve') signing.resolve('signed')
    else signing.reject(new Error('no'))
    await nextTurn()
    expect([sent, seen]).toEqual([[], []])
  },
)
