import { readdirSync, readFileSync } from 'node:fs'
import type { Reporter } from 'vitest/node'
import { Patience } from './patience.ts'

const GRACE_MS = 5_000
const PAUSE_MS = 50
/** In the environment of each process that a run starts, which tells runs beside each other apart. */
const RUN_VARIABLE = 'POSTERN_TEST_RUN'
/** Names this run, however often the configuration is loaded. */
const THIS_RUN = `${process.pid}-${Math.round(performance.timeOrigin)}`

/** Vitest's own process that ends the workers of a runner that dies. It ends with the runner. */
const WATCHDOG = 'watchdog'

interface Running {
  readonly pid: number
  readonly parent: number
  readonly group: number
  readonly command: string
  /** The run that started it; undefined if its environment does not say. */
  readonly run: string | undefined
}

/** A process that a test started and did not stop fails the run, and is ended. Only Linux says which there are. */
export class LeftBehindReporter implements Reporter {
  readonly #before = new Set(running().map(({ pid }) => pid))
  readonly #graceMs: number

  /** @param graceMs in which processes that tests have just stopped may end */
  constructor(graceMs = GRACE_MS) {
    this.#graceMs = graceMs
    process.env[RUN_VARIABLE] = THIS_RUN
  }

  async onTestRunEnd(): Promise<void> {
    // Vitest does not wait for its last workers. What they leave behind shows only once they have ended.
    await endOf(() => this.#workers(), GRACE_MS)
    const left = await endOf(() => this.#leftBehind(), this.#graceMs)
    if (left.length === 0) return
    for (const { pid } of left) end(pid)
    const names = left.map(({ pid, command }) => `  ${pid} ${command}`).join('\n')
    process.stdout.write(`\nTests left these processes behind, which have been ended now:\n${names}\n`)
    process.exitCode = 1
  }

  #workers(): readonly Running[] {
    return running().filter(
      ({ pid, parent, command }) =>
        parent === process.pid && !this.#before.has(pid) && !command.includes(WATCHDOG),
    )
  }

  /** The run's own processes without its workers, and those of its group that lost both their parent and their environment. */
  #leftBehind(): readonly Running[] {
    const all = running()
    const group = all.find(({ pid }) => pid === process.pid)?.group
    const inGroup = new Set(all.filter(one => one.group === group).map(({ pid }) => pid))
    return all.filter(
      one =>
        one.pid !== process.pid &&
        one.parent !== process.pid &&
        !this.#before.has(one.pid) &&
        (one.run === THIS_RUN || (one.run === undefined && inGroup.has(one.pid) && !inGroup.has(one.parent))),
    )
  }
}

/** Waits for some time until there are no such processes. @returns those that are left */
async function endOf(processes: () => readonly Running[], graceMs: number): Promise<readonly Running[]> {
  const patience = new Patience(graceMs)
  for (;;) {
    const left = processes()
    if (left.length === 0 || patience.isOver) return left
    await new Promise(resolve => setTimeout(resolve, PAUSE_MS))
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
      const run = runThatStarted(name)
      return [
        {
          pid: Number(name),
          parent: Number(parent),
          group: Number(group),
          command: command.slice(0, 200),
          run,
        },
      ]
    } catch {
      return [] // It has ended meanwhile.
    }
  })
}

function runThatStarted(name: string): string | undefined {
  try {
    const variables = readFileSync(`/proc/${name}/environ`, 'latin1').split('\0')
    return variables.find(one => one.startsWith(`${RUN_VARIABLE}=`))?.slice(RUN_VARIABLE.length + 1)
  } catch {
    return undefined // It belongs to another user, or has ended.
  }
}

function end(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch {
    // It has ended meanwhile.
  }
}
