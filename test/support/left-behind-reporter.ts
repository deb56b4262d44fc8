import { readdirSync, readFileSync } from 'node:fs'
import type { Reporter } from 'vitest/node'
import { Patience } from './patience.ts'

const GRACE_MS = 5_000
const PAUSE_MS = 50

interface Running {
  readonly pid: number
  readonly parent: number
  readonly group: number
  readonly command: string
}

/** A process that a test started and did not stop fails the run, and is ended. Only Linux says which there are. */
export class LeftBehindReporter implements Reporter {
  readonly #before = new Set(running().map(({ pid }) => pid))

  async onTestRunEnd(): Promise<void> {
    const patience = new Patience(GRACE_MS)
    while (this.#leftBehind().length > 0 && !patience.isOver) {
      await new Promise(resolve => setTimeout(resolve, PAUSE_MS))
    }
    const left = this.#leftBehind()
    if (left.length === 0) return
    for (const { pid } of left) end(pid)
    const names = left.map(({ pid, command }) => `  ${pid} ${command}`).join('\n')
    process.stdout.write(`\nTests left these processes behind, which have been ended now:\n${names}\n`)
    process.exitCode = 1
  }

  /** Processes of the run's own group that are neither older than it nor its workers. */
  #leftBehind(): readonly Running[] {
    const all = running()
    const group = all.find(({ pid }) => pid === process.pid)?.group
    return all.filter(
      one =>
        one.group === group &&
        one.parent !== process.pid &&
        one.pid !== process.pid &&
        !this.#before.has(one.pid),
    )
  }
}

function running(): readonly Running[] {
  if (process.platform !== 'linux') return []
  return readdirSync('/proc').flatMap(name => {
    if (!/^\d+$/.test(name)) return []
    try {
      // The name of a program, in parentheses, may contain blanks; the fields after it do not (proc_pid_stat(5)).
      const stat = readFileSync(`/proc/${name}/stat`, 'utf8')
      const [state, parent, group] = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
      if (state === 'Z') return []
      const command = readFileSync(`/proc/${name}/cmdline`, 'utf8').replaceAll('\0', ' ').trim()
      return [
        { pid: Number(name), parent: Number(parent), group: Number(group), command: command.slice(0, 200) },
      ]
    } catch {
      return [] // It has ended meanwhile.
    }
  })
}

function end(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch {
    // It has ended meanwhile.
  }
}
