import fc from 'fast-check'
import { expect, test } from 'vitest'
import { UsageCounts } from '../../../src/keys/usage/usage-counts.ts'
import { ReportSequence, type UsageReport } from '../../../src/keys/usage/usage-report.ts'
import { createMetrics } from '../../../src/observability/metrics/metrics.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { runs } from '../../support/runs.ts'
import { usageRequest } from '../../support/usage-request.ts'

const metrics = createMetrics()
/** So few that schedules reach the bound. */
const MAX_ENTRIES = 8
const KEYS = 6
const GATEWAYS = 2

type Step =
  | { do: 'request'; gateway: number; key: number; ms: number }
  /** `lost`: it never arrives. `unacknowledged`: it is counted, and the acknowledgement is lost. */
  | { do: 'report'; gateway: number; network: 'works' | 'lost' | 'unacknowledged' }
  /** A copy of an earlier report arrives once more, as from a proxy that repeats requests. */
  | { do: 'late copy'; which: number }
  | { do: 'kill'; gateway: number }

const gateway = fc.nat({ max: GATEWAYS - 1 })
const is = <Word extends string>(word: Word) => fc.constant(word)
const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.record({
      do: is('request'),
      gateway,
      key: fc.nat({ max: KEYS - 1 }),
      ms: fc.constantFrom(1, 20_000, 3_600_000),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      do: is('report'),
      gateway,
      network: fc.constantFrom<('works' | 'lost' | 'unacknowledged')[]>('works', 'lost', 'unacknowledged'),
    }),
  },
  fc.record({ do: is('late copy'), which: fc.nat() }),
  fc.record({ do: is('kill'), gateway }),
)

/** A console as the contract describes it. Its state is in the database, so that a restart changes nothing. */
class ConsoleModel {
  readonly #sequences = new Map<string, number>()
  readonly byWorkspace = new Map<string, number>()
  requests = 0
  lost = 0

  receive({ gateway: sender, sequence, counts, lost = 0 }: UsageReport): void {
    if (sequence <= (this.#sequences.get(sender) ?? 0)) return
    this.#sequences.set(sender, sequence)
    this.lost += lost
    for (const { keyId, workspaceId, count } of counts) {
      if (keyId !== null) expect(workspaceOf(keyId)).toBe(workspaceId)
      this.requests += count
      this.byWorkspace.set(workspaceId, (this.byWorkspace.get(workspaceId) ?? 0) + count)
    }
  }
}

const workspaceOf = (keyId: string) => `ws_${Number(keyId.slice(-1)) % 2}`

class Gateway {
  readonly #console: ConsoleModel
  readonly #clock: ManualClock
  readonly #counts: UsageCounts
  readonly #reports: ReportSequence
  readonly name: string
  /** Requests that may be lost with this process. */
  unacknowledged = 0

  constructor(name: string, console: ConsoleModel, clock: ManualClock) {
    this.name = name
    this.#console = console
    this.#clock = clock
    const settings = { countsRequests: true, notesRefusals: false, maxEntries: MAX_ENTRIES }
    this.#counts = new UsageCounts({ clock, metrics, ...settings })
    this.#reports = new ReportSequence(name, () => this.#counts.take())
  }

  request(keyId: string, ms: number): void {
    this.#clock.advance(ms)
    this.#counts.record(usageRequest({ keyId, workspaceId: workspaceOf(keyId) }), 200, false)
    this.unacknowledged++
  }

  /** @returns the report that was sent; null if there was none */
  report(network: 'works' | 'lost' | 'unacknowledged'): UsageReport | null {
    const report = this.#reports.next()
    if (report === null) return null
    // What arrives is what was sent, also if the gateway changes its own object afterwards.
    const copy = structuredClone(report)
    if (network !== 'lost') this.#console.receive(copy)
    this.#counts.isLate = network !== 'works'
    if (network === 'works') {
      this.#reports.settle()
      this.unacknowledged -= report.counts.reduce((sum, { count }) => sum + count, report.lost ?? 0)
    }
    return copy
  }

  /** The last reports of a process that stops. */
  drain(): void {
    while (this.report('works') !== null);
  }
}

test('no request is counted twice, and none is lost but with a killed gateway, on any schedule of faults', () => {
  const steps = fc.array(step, { minLength: 1, maxLength: 80 })
  fc.assert(
    fc.property(steps, schedule => {
      const clock = new ManualClock()
      const console = new ConsoleModel()
      let processes = 0
      const start = () => new Gateway(`gateway/${processes++}`, console, clock)
      const gateways = Array.from({ length: GATEWAYS }, start)
      const sent: UsageReport[] = []
      const byWorkspace = new Map<string, number>()
      let requests = 0
      let killed = 0
      for (const taken of schedule) {
        if (taken.do === 'request') {
          const keyId = `key_${taken.key}`
          gateways[taken.gateway]?.request(keyId, taken.ms)
          byWorkspace.set(workspaceOf(keyId), (byWorkspace.get(workspaceOf(keyId)) ?? 0) + 1)
          requests++
        } else if (taken.do === 'report') {
          const report = gateways[taken.gateway]?.report(taken.network) ?? null
          if (report !== null) sent.push(report)
        } else if (taken.do === 'late copy') {
          const copy = sent[taken.which % Math.max(1, sent.length)]
          // Only a report that has arrived once, or was given up with its gateway, can arrive again out of order.
          if (copy !== undefined) console.receive(copy)
        } else {
          killed += gateways[taken.gateway]?.unacknowledged ?? 0
          gateways[taken.gateway] = start()
        }
        expect(console.requests + console.lost).toBeLessThanOrEqual(requests)
      }
      for (const each of gateways) each.drain()
      expect(console.requests + console.lost).toBeLessThanOrEqual(requests)
      expect(console.requests + console.lost).toBeGreaterThanOrEqual(requests - killed)
      // Folded or not, each request counts for its own workspace.
      if (console.requests === requests) expect(console.byWorkspace).toEqual(byWorkspace)
    }),
    { numRuns: runs(500, 3_000) },
  )
})
