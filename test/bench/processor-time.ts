import { readdirSync, readFileSync } from 'node:fs'
import { type Kysely, sql } from 'kysely'
import type { Tables } from '../../src/console/platform/database/tables.ts'

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

/** Processor time of a process and all below it, ended ones included, in microseconds. */
export function treeTimeUs(pid: number): number {
  const processes = readdirSync('/proc')
    .filter(name => /^[0-9]+$/.test(name))
    .map(name => ({ pid: Number(name), stat: statOf(Number(name)) }))
  const tree = new Set([pid])
  // Parents may have higher numbers than their children, so one pass is not enough.
  for (let before = 0; before < tree.size; ) {
    before = tree.size
    for (const process of processes) if (tree.has(Number(process.stat[1]))) tree.add(process.pid)
  }
  const ticks = processes
    .filter(process => tree.has(process.pid))
    // Of ended children the parent has the sum.
    .map(({ stat }) => [11, 12, 13, 14].reduce((sum, field) => sum + Number(stat[field] ?? 0), 0))
  return (ticks.reduce((sum, own) => sum + own, 0) * TICK_NS) / 1000
}

/** Starts to watch the machine. @returns what others took of all processors since then, 0 to 1 */
export function watchOthers(): () => number {
  const before = { ...machineTimeUs(), ownUs: treeTimeUs(process.pid) }
  return () => {
    const now = machineTimeUs()
    const ownUs = treeTimeUs(process.pid) - before.ownUs
    return Math.max(0, (now.busyUs - before.busyUs - ownUs) / (now.allUs - before.allUs))
  }
}

/** Interrupts count as idle: most of them serve the load. Time that the hypervisor gave to others counts as busy. */
function machineTimeUs(): { busyUs: number; allUs: number } {
  const [total = ''] = readFileSync('/proc/stat', 'utf8').split('\n')
  const ticks = total.trim().split(/\s+/).slice(1, 9).map(Number)
  const [user = 0, nice = 0, system = 0, , , , , steal = 0] = ticks
  const us = (count: number) => (count * TICK_NS) / 1000
  return { busyUs: us(user + nice + system + steal), allUs: us(ticks.reduce((sum, own) => sum + own, 0)) }
}

/** The process whose children are the connections of a PostgreSQL on this machine. */
export async function postmasterOf(database: Kysely<Tables>): Promise<number> {
  const { rows } = await sql<{ pid: number }>`select pg_backend_pid() as pid`.execute(database)
  return Number(statOf(rows[0]?.pid ?? 0)[1])
}

/** Fields of /proc/PID/stat from the third on; empty if the process has ended. */
function statOf(pid: number): string[] {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'utf8')
    return text.slice(text.lastIndexOf(')') + 2).split(' ')
  } catch {
    return []
  }
}
