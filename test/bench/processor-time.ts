import { readdirSync, readFileSync } from 'node:fs'

/** Linux counts ticks of 10 ms if it has no exact counter. */
const TICK_NS = 10_000_000

/** Processor time of a process so far, all threads, in microseconds. */
export function processorTimeUs(pid: number): number {
  return (exactNs(pid) ?? ticksNs(pid)) / 1000
}

/** From Linux's scheduler statistics, in nanoseconds. @returns null if the kernel was built without them */
function exactNs(pid: number): number | null {
  let totalNs = 0
  for (const task of readdirSync(`/proc/${pid}/task`)) {
    try {
      totalNs += Number(readFileSync(`/proc/${pid}/task/${task}/schedstat`, 'utf8').split(' ')[0])
    } catch {
      // A thread that has just exited used almost no time. Without the file, even the first read fails.
    }
  }
  return totalNs > 0 ? totalNs : null
}

function ticksNs(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? []
  return (Number(fields[11]) + Number(fields[12])) * TICK_NS
}

/** Resident memory in bytes. */
export function residentBytes(pid: number): number {
  const kilobytes = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]
  return Number(kilobytes) * 1024
}
