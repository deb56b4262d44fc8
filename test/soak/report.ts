import type { Holdings } from './inspected-process.ts'
import type { SoakReport } from './soak.ts'

export function reportLines(report: SoakReport): string[] {
  const { sent, right, failed, failedUnexcused, cut, wrong, revocations, faults, upstreamRequests } = report
  return [
    `soak: ${sent} requests, ${wrong.length} wrong answers, ${right} right, ${failed} failed while something was broken, ${failedUnexcused} while nothing was, ${cut} cut off or left`,
    `soak: ${faults} faults, ${revocations} revocations, ${upstreamRequests} requests to the upstream`,
    ...holdingsLines('gateway', report.gateway),
    ...holdingsLines('console', report.console),
    ...new Set(wrong),
    ...report.complaints,
  ]
}

/**
 * Pages that were once needed stay with the allocators: resident memory comes back to a plateau, not to a figure. This is
 * as much as it moves between runs; a leak of a kilobyte in a hundred requests passes it within minutes.
 */
const RESIDENT_SHARE = 0.15

/** A connection that is just made anew, a command on its way with its deadline: against the thousands that came and went. */
const UNDER_WAY = 2

/**
 * A gateway remembers the version of each change that it heard, so that no older record is believed again; so many of
 * them that a soak does not reach the bound. This is what one takes, as measured over 5,000.
 */
const REMEMBERED_CHANGE_BYTES = 512

/**
 * What is not back to what it was: connections and timers to before the first request, memory to after the warm-up or at
 * half-time, whichever was more. Compiled code comes and goes by as much as half a megabyte for a long time; what leaks
 * in the first half leaks in the second.
 * @param heapShare by which the heap may have grown
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
