import type { Holdings } from '../../support/inspected-process.ts'
import type { SoakReport } from './soak.ts'

export function reportLines(report: SoakReport): string[] {
  const { sent, right, failed, failedUnexcused, cut, wrong, revocations, faults, upstreamRequests } = report
  return [
    `soak: ${sent} requests, ${wrong.length} wrong answers, ${right} right, ${failed} failed during a fault, ${failedUnexcused} without a fault, ${cut} disconnected`,
    `soak: ${faults} faults, ${revocations} revocations, ${upstreamRequests} requests to the upstream`,
    ...holdingsLines('gateway', report.gateway),
    ...holdingsLines('console', report.console),
    ...new Set(wrong),
    ...report.loggedErrors,
  ]
}

/**
 * Allocators keep pages that were needed once, so resident memory returns to a plateau, not to a figure. This is the
 * variation between runs; a leak of a kilobyte in a hundred requests exceeds it within minutes.
 */
const RESIDENT_SHARE = 0.15

/** Connections being reopened and pending commands with their deadlines, negligible against thousands of requests. */
const UNDER_WAY = 2

/**
 * A gateway remembers the version of each change it received, so that it never accepts an older record. A soak stays
 * below the limit of that list. Memory of one entry, measured over 5,000.
 */
const REMEMBERED_CHANGE_BYTES = 512

/**
 * Reports what has not been released: connections and timers are compared with the state before the first request,
 * memory with that after the warm-up or at half-time, whichever is greater. Compiled code varies by half a megabyte for
 * a long time; a leak in the first half continues in the second.
 * @param heapShare allowed growth of the heap
 */
export function growthOf(report: SoakReport, heapShare: number): string[] {
  const remembered = report.revocationsSinceHalf * REMEMBERED_CHANGE_BYTES
  return (['gateway', 'console'] as const).flatMap(name => {
    const { fresh, warm, half, end } = report[name]
    const before = (kind: keyof Holdings) => Math.max(warm[kind], half[kind])
    const limits: Holdings = {
      heapBytes: before('heapBytes') * (1 + heapShare) + remembered,
      residentBytes: before('residentBytes') * (1 + RESIDENT_SHARE),
      descriptors: fresh.descriptors + UNDER_WAY,
      sockets: fresh.sockets + UNDER_WAY,
      timers: fresh.timers + 2 * UNDER_WAY,
    }
    const kinds = Object.keys(limits) as (keyof Holdings)[] // Its own keys, which the type of `keys` forgets.
    return kinds
      .filter(kind => end[kind] > limits[kind])
      .map(kind => `${name}: ${kind} ${end[kind]}, at most ${Math.floor(limits[kind])}`)
  })
}

function holdingsLines(name: string, stages: SoakReport['gateway']): string[] {
  return Object.entries(stages).map(
    ([stage, holdings]) => `soak: ${name}, ${stage.padEnd(5)}: ${describe(holdings)}`,
  )
}

function describe({ heapBytes, residentBytes, descriptors, sockets, timers }: Holdings): string {
  const megabytes = (bytes: number) => (bytes / 2 ** 20).toFixed(2)
  return `heap ${megabytes(heapBytes)} MiB, resident ${megabytes(residentBytes)} MiB, ${descriptors} descriptors, ${sockets} sockets, ${timers} timers`
}
