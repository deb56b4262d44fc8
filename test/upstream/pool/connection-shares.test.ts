import { expect, test } from 'vitest'
import {
  ConnectionShares,
  fairShare,
  GRACE_MS,
  type PreemptionCandidate,
  selectForPreemption,
} from '../../../src/upstream/pool/connection-shares.ts'

interface Request {
  readonly workspaceId: string
  readonly name: string
}

const of = (workspaceId: string, name = workspaceId): Request => ({ workspaceId, name })
const sharesOf = (connections: number, maxRequests = 9, maxWaitMs = 1000) =>
  new ConnectionShares<Request>({ connections, queue: { maxRequests, maxWaitMs } })

/** Uses the shares as the dispatcher does. @returns whether the request got a connection at once */
function use(shares: ConnectionShares<Request>, request: Request, nowMs = 0): boolean {
  const free = shares.isFreeFor(request.workspaceId, nowMs)
  if (free) shares.hold(request)
  else shares.enqueue(request, nowMs)
  return free
}

test('one workspace may use every connection while no other needs one', () => {
  const shares = sharesOf(8)
  expect(Array.from({ length: 9 }, () => use(shares, of('a'))).filter(Boolean)).toHaveLength(8)
})

test('requests of one workspace are served in order of arrival', () => {
  const shares = sharesOf(1)
  use(shares, of('a', 'first'))
  const [second, third, fourth] = [of('a', 'second'), of('a', 'third'), of('a', 'fourth')]
  for (const request of [second, third, fourth]) use(shares, request)
  expect(shares.withdraw(third)).toBe(true)
  shares.release(of('a'))
  expect(shares.next(0)).toBe(second)
  expect(shares.next(0)).toBeUndefined()
  shares.release(of('a'))
  expect(shares.next(0)).toBe(fourth)
})

test('a free connection goes to the workspace that holds the fewest; of several, to each in turn', () => {
  const shares = sharesOf(2)
  use(shares, of('a'))
  use(shares, of('a'))
  for (const request of [of('a', 'a3'), of('b', 'b1'), of('b', 'b2'), of('c', 'c1')]) use(shares, request)
  const served: (string | undefined)[] = []
  for (const from of ['a', 'a', 'b', 'c']) {
    shares.release(of(from))
    served.push(shares.next(0)?.name)
  }
  // By the second release `a` holds none either, and waits longer than `c`.
  expect(served).toEqual(['b1', 'a3', 'c1', 'b2'])
})

test('in a full queue the workspace with the most requests loses its newest', () => {
  const shares = sharesOf(1, 4)
  use(shares, of('a'))
  const waiting = ['a1', 'a2', 'a3', 'a4'].map(name => of('a', name))
  for (const request of waiting) use(shares, request)
  expect(shares.isQueueFull).toBe(true)
  expect(shares.displacedFor('a')).toBeUndefined()
  expect(shares.displacedFor('b')).toBe(waiting[3])
  expect(shares.withdraw(waiting[3] ?? of('a'))).toBe(true)
  use(shares, of('b', 'b1'))
  expect(shares.displacedFor('b')).toBe(waiting[2])
  shares.withdraw(waiting[2] ?? of('a'))
  use(shares, of('b', 'b2'))
  expect([shares.displacedFor('a'), shares.displacedFor('b')]).toEqual([undefined, undefined])
  expect(shares.displacedFor('c')).toBe(waiting[1])
})

test('a queue of size 0 is always full, and no request is displaced', () => {
  const shares = sharesOf(1, 0)
  use(shares, of('a'))
  expect([shares.isQueueFull, shares.displacedFor('b')]).toEqual([true, undefined])
})

test('in a queue of size 1 the request that waits keeps its place', () => {
  const shares = sharesOf(1, 1)
  for (const name of ['a1', 'a2']) use(shares, of('a', name))
  expect([shares.isQueueFull, shares.displacedFor('b')]).toEqual([true, undefined])
})

test('requests are overdue after the maximum wait', () => {
  const shares = sharesOf(1, 9, 10)
  use(shares, of('x'))
  const [early, late] = [of('a'), of('b')]
  use(shares, early, 0)
  use(shares, late, 5)
  expect(shares.overdue(9)).toEqual([])
  expect(shares.overdue(10)).toEqual([early])
  expect(shares.overdue(15)).toEqual([early, late])
})

test('a workspace below its share is owed a connection after the grace, and not before', () => {
  const shares = sharesOf(4)
  for (let held = 0; held < 4; held++) use(shares, of('a'))
  use(shares, of('a', 'more'), 0)
  use(shares, of('b'), 50)
  expect(shares.isOwed(49 + GRACE_MS)).toBe(false)
  expect(shares.isOwed(50 + GRACE_MS)).toBe(true)
  expect([shares.measureExcess('a'), shares.measureExcess('b'), shares.measureExcess('c')]).toEqual([
    3, -1, -1,
  ])
})

test('a preempted connection stays in reserve for workspaces below their share, and the reserve decays', () => {
  const shares = sharesOf(4)
  for (let held = 0; held < 4; held++) use(shares, of('a'))
  use(shares, of('a', 'more'), 0)
  shares.preempted(0)
  shares.release(of('a'))
  expect(shares.next(0)).toBeUndefined()
  expect(shares.isFreeFor('a', 0)).toBe(false)
  expect(shares.isFreeFor('b', 0)).toBe(true)
  expect(shares.next(9_999)).toBeUndefined()
  expect(shares.next(10_000)?.name).toBe('more')
})

test('the grace is half of the maximum wait if that is shorter', () => {
  const shares = sharesOf(1, 9, 60)
  use(shares, of('a'))
  use(shares, of('b'), 0)
  expect([shares.isOwed(29), shares.isOwed(30)]).toEqual([false, true])
})

test('while others wait, a workspace at its share takes no free connection before them', () => {
  const shares = sharesOf(8)
  for (let held = 0; held < 8; held++) use(shares, of(held < 3 ? 'a' : 'b'))
  use(shares, of('c'))
  for (const workspace of ['a', 'b', 'b']) shares.release(of(workspace))
  // `a` holds two, which is its share; `d` holds none; `c` was here before its own second request.
  expect(['a', 'b', 'c', 'd'].map(workspace => shares.isFreeFor(workspace, 0))).toEqual([
    ...[false, false, false, true],
  ])
})

test('a workspace at its share is owed nothing', () => {
  const shares = sharesOf(8)
  for (let held = 0; held < 8; held++) use(shares, of(held < 6 ? 'a' : 'b'))
  use(shares, of('b'))
  expect(shares.isOwed(60_000)).toBe(false)
})

test('the reserve is never more than what others than one workspace may hold', () => {
  const shares = sharesOf(8)
  for (let held = 0; held < 8; held++) use(shares, of('a'))
  for (let count = 0; count < 20; count++) shares.preempted(0)
  for (let held = 0; held < 7; held++) shares.release(of('a'))
  expect(shares.isFreeFor('a', 0)).toBe(true)
  use(shares, of('a'))
  expect(shares.isFreeFor('a', 0)).toBe(false)
})

test('the reserve of twenty preemptions is half as large after ten seconds', () => {
  const shares = sharesOf(8)
  for (let count = 0; count < 20; count++) shares.preempted(0)
  let held = 0
  for (; shares.isFreeFor('a', 10_000); held++) shares.hold(of('a'))
  // Six of eight were in reserve, three are now.
  expect(held).toBe(5)
})

test('of those who wait and hold some, the one with the fewest is next, and of equals the one served longest ago', () => {
  const shares = sharesOf(8)
  for (const workspace of ['a', 'a', 'b', 'c', 'd', 'd', 'd', 'd']) use(shares, of(workspace))
  for (const name of ['a', 'b', 'c', 'a']) use(shares, of(name, `${name} waits`))
  shares.release(of('d'))
  expect(shares.next(0)?.name).toBe('b waits')
})

test('the reserve decays from the last preemption, not from the start of the clock', () => {
  const shares = sharesOf(4)
  for (let held = 0; held < 4; held++) use(shares, of('a'))
  shares.preempted(1_000_000)
  shares.release(of('a'))
  expect(shares.isFreeFor('a', 1_009_999)).toBe(false)
  expect(shares.isFreeFor('a', 1_010_000)).toBe(true)
})

test('a queue with room displaces no request', () => {
  const shares = sharesOf(1, 3)
  for (const name of ['held', 'a1', 'a2']) use(shares, of('a', name))
  expect([shares.isQueueFull, shares.displacedFor('b')]).toEqual([false, undefined])
})

test('a request of an unknown workspace was not waiting', () => {
  expect(sharesOf(1).withdraw(of('a'))).toBe(false)
  expect(sharesOf(1).next(0)).toBeUndefined()
})

const candidate = (more: Partial<PreemptionCandidate & { name: string }>) => ({
  name: '',
  workspaceId: 'a',
  stage: 'waiting' as PreemptionCandidate['stage'],
  stalledMs: 0,
  startedAtMs: 0,
  ...more,
})
const excess = (workspaceId: string) => ({ a: 3, b: 2, c: 0 })[workspaceId] ?? -1
const selected = (...candidates: ReturnType<typeof candidate>[]) => [
  selectForPreemption(candidates, excess)?.name,
  selectForPreemption(candidates.toReversed(), excess)?.name,
]
const both = (name: string) => [name, name]

test('the preempted exchange belongs to the workspace furthest above its share, never to one at its share', () => {
  const worse = candidate({ name: 'b', workspaceId: 'b', stage: 'discarding' })
  expect(selected(worse, candidate({ name: 'a' }))).toEqual(both('a'))
  expect(
    selectForPreemption([candidate({ workspaceId: 'c' }), candidate({ workspaceId: 'd' })], excess),
  ).toBeUndefined()
})

test('the preempted exchange is the one whose loss costs its client the least', () => {
  const discarding = candidate({ name: 'discarding', stage: 'discarding' })
  const stalled = candidate({ name: 'stalled', stage: 'streaming', stalledMs: 500 })
  const stalledLess = candidate({
    name: 'stalled less',
    stage: 'streaming',
    stalledMs: GRACE_MS,
    startedAtMs: 9,
  })
  const young = candidate({ name: 'young', startedAtMs: 5 })
  const old = candidate({ name: 'old', startedAtMs: 4 })
  const reading = candidate({ name: 'reading', stage: 'streaming', stalledMs: GRACE_MS - 1, startedAtMs: 9 })
  expect(selected(reading, old, young, stalledLess, stalled, discarding)).toEqual(both('discarding'))
  expect(selected(reading, old, young, stalledLess, stalled)).toEqual(both('stalled'))
  expect(selected(reading, old, young, stalledLess)).toEqual(both('stalled less'))
  expect(selected(reading, old, young)).toEqual(both('young'))
  expect(selected(reading, candidate({ name: 'elder', stage: 'streaming' }))).toEqual(both('reading'))
  // Of two that are alike the younger one is preempted, however long clients that still read have read nothing.
  const slow = { stage: 'streaming', stalledMs: GRACE_MS - 1 } as const
  expect(selected(candidate({ name: 'slow', ...slow }), candidate({ ...reading, stalledMs: 0 }))).toEqual(
    both('reading'),
  )
  const stalledAsLong = candidate({ ...stalledLess, name: 'elder', startedAtMs: 8 })
  expect(selected(stalledAsLong, stalledLess)).toEqual(both('stalled less'))
})

test.each([
  [128, 32],
  [7, 1],
  [1, 1],
])('of %i, a workspace may hold %i while others need them', (total, share) => {
  expect(fairShare(total)).toBe(share)
})
