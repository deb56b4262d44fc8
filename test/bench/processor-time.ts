import { readdirSync, readFileSync } from 'node:fs'

/** Linux counts in ticks of 10 ms where it does not count exactly. */
const TICK_NS = 10_000_000

/** Processor time of a process so far, all its threads, in microseconds. */
export function processorTimeUs(pid: number): number {
  return (exactNs(pid) ?? ticksNs(pid)) / 1000
}

/** Linux's scheduler knows it to the nanosecond. @returns null where it was built without saying so */
function exactNs(pid: number): number | null {
  let totalNs = 0
  for (const task of readdirSync(`/proc/${pid}/task`)) {
    try {
      totalNs += Number(readFileSync(`/proc/${pid}/task/${task}/schedstat`, 'utf8').split(' ')[0])
    } catch {
      // A thread that has just ended had next to nothing to do; without the file there is no first one either.
    }
  }
  return totalNs > 0 ? totalNs : null
}

function ticksNs(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? []
  return (Number(fields[11]) + Number(fields[12])) * TICK_NS
}

/** Resident memory, in bytes. */
export function residentBytes(pid: number): number {
  const kilobytes = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]
  return Number(kilobytes) * 1024
}
