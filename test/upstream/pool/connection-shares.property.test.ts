import fc from 'fast-check'
import { expect, test } from 'vitest'
import {
  ConnectionShares,
  fairShare,
  GRACE_MS,
  selectForPreemption,
} from '../../../src/upstream/pool/connection-shares.ts'

interface Request {
  readonly workspaceId: string
  readonly number: number
  readonly startedAtMs: number
}

/** Uses the shares as the dispatcher does, and compares them with plain lists of requests. */
class Driver {
  readonly shares: ConnectionShares<Request>
  readonly connections: number
  readonly maxRequests: number
  held: Request[] = []
  waiting: Request[] = []
  nowMs = 0
  preemptions = 0
  #number = 0

  constructor(connections: number, maxRequests: number) {
    this.connections = connections
    this.maxRequests = maxRequests
    this.shares = new ConnectionShares({ connections, queue: { maxRequests, maxWaitMs: 60_000 } })
  }

  request(workspaceId: string): void {
    const request = { workspaceId, number: this.#number++, startedAtMs: this.nowMs }
    if (this.shares.isFreeFor(workspaceId, this.nowMs)) {
      this.shares.hold(request)
      this.held.push(request)
      return
    }
    const displaced = this.shares.displacedFor(workspaceId)
    const own = this.#waitingOf(workspaceId)
    if (displaced !== undefined) {
      // The other workspace keeps at least as many, and loses its newest request.
      const others = this.waiting.filter(({ workspaceId: other }) => other === displaced.workspaceId)
      expect(others.length - 1).toBeGreaterThan(own)
      expect(others.at(-1)).toBe(displaced)
      this.withdraw(displaced)
    } else if (this.shares.isQueueFull) {
      for (const other of this.#workspaces(this.waiting)) {
        expect(this.#waitingOf(other)).toBeLessThanOrEqual(own + 1)
      }
      return
    }
    this.shares.enqueue(request, this.nowMs)
    this.waiting.push(request)
  }

  release(request: Request): void {
    this.held = this.held.filter(other => other !== request)
    this.shares.release(request)
    this.admit()
  }

  withdraw(request: Request): void {
    this.waiting = this.waiting.filter(other => other !== request)
    expect(this.shares.withdraw(request)).toBe(true)
    expect(this.shares.withdraw(request)).toBe(false)
  }

  admit(): void {
    for (let next = this.shares.next(this.nowMs); next !== undefined; next = this.shares.next(this.nowMs)) {
      const { workspaceId } = next
      const fewest = Math.min(...this.#workspaces(this.waiting).map(other => this.#heldBy(other)))
      expect(this.#heldBy(workspaceId)).toBe(fewest)
      expect(this.waiting.find(other => other.workspaceId === workspaceId)).toBe(next)
      this.waiting = this.waiting.filter(other => other !== next)
      this.held.push(next)
    }
  }

  advance(ms: number): void {
    this.nowMs += ms
    while (this.shares.isOwed(this.nowMs)) {
      const candidates = this.held.map(request => ({
        ...request,
        request,
        stage: 'waiting' as const,
        stalledMs: 0,
      }))
      const first = selectForPreemption(candidates, workspaceId => this.shares.measureExcess(workspaceId))
      if (first === undefined) break
      expect(this.#heldBy(first.workspaceId)).toBeGreaterThan(fairShare(this.connections))
      this.preemptions++
      this.shares.preempted(this.nowMs)
      this.release(first.request)
    }
    this.admit()
  }

  check(): void {
    const { shares, connections } = this
    const share = fairShare(connections)
    expect(shares.held).toBe(this.held.length)
    expect(shares.queued).toBe(this.waiting.length)
    expect(shares.all().toSorted((one, other) => one.number - other.number)).toEqual(this.waiting)
    expect(shares.held).toBeLessThanOrEqual(connections)
    expect(shares.queued).toBeLessThanOrEqual(this.maxRequests)
    expect(shares.workspaces).toBe(this.#workspaces([...this.held, ...this.waiting]).length)
    if (this.held.length === connections) return
    // With a free connection, only workspaces at or above their share wait, because of the reserve.
    if (this.preemptions === 0) expect(this.waiting).toEqual([])
    for (const workspace of this.#workspaces(this.waiting)) {
      expect(this.#heldBy(workspace)).toBeGreaterThanOrEqual(share)
    }
  }

  /** If a workspace below its share has waited for the grace, no workspace is above its share. */
  checkShares(): void {
    const share = fairShare(this.connections)
    const late = this.waiting.some(
      ({ workspaceId, startedAtMs }) =>
        this.#heldBy(workspaceId) < share && this.nowMs - startedAtMs >= GRACE_MS,
    )
    if (!late) return
    for (const workspace of this.#workspaces(this.held)) {
      expect(this.#heldBy(workspace)).toBeLessThanOrEqual(share)
    }
  }

  #heldBy(workspace: string): number {
    return this.held.filter(({ workspaceId }) => workspaceId === workspace).length
  }

  #waitingOf(workspace: string): number {
    return this.waiting.filter(({ workspaceId }) => workspaceId === workspace).length
  }

  #workspaces(requests: readonly Request[]): string[] {
    return [...new Set(requests.map(({ workspaceId }) => workspaceId))]
  }
}

const workspace = fc.constantFrom('a', 'a', 'a', 'b', 'c', 'd', 'e', 'f')
const step = fc.oneof(
  { weight: 6, arbitrary: fc.record({ kind: fc.constant('request' as const), workspace }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('release' as const), which: fc.nat() }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('withdraw' as const), which: fc.nat() }) },
  {
    weight: 2,
    arbitrary: fc.record({ kind: fc.constant('advance' as const), ms: fc.constantFrom(1, 60, 25_000) }),
  },
)
const anyOf = <Item>(items: readonly Item[], which: number): Item | undefined => items[which % items.length]

test('in any sequence, connections and queue places are shared fairly, none is wasted, and no state remains', () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 12 }),
      fc.integer({ min: 0, max: 12 }),
      fc.array(step, { maxLength: 120 }),
      (connections, maxRequests, steps) => {
        const driver = new Driver(connections, maxRequests)
        for (const next of steps) {
          if (next.kind === 'request') driver.request(next.workspace)
          else if (next.kind === 'advance') driver.advance(next.ms)
          else {
            const from = next.kind === 'release' ? driver.held : driver.waiting
            const request = anyOf(from, next.which)
            if (request !== undefined) driver[next.kind](request)
          }
          driver.check()
          if (next.kind === 'advance') driver.checkShares()
        }
        for (const request of driver.waiting) driver.withdraw(request)
        for (const request of driver.held) driver.release(request)
        expect(driver.shares.workspaces).toBe(0)
      },
    ),
    { numRuns: 500 },
  )
})
