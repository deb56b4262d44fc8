import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { whenOver } from './patience.ts'
import { PROGRAM } from './postern-process.ts'

const DEADLINE_MS = 20_000
const quoted = (word: string) => `'${word.replaceAll("'", "'\\''")}'`

/** Runs a command at a real pseudo-terminal and types into it. The output holds stdout and stderr, as on a screen. */
export class Terminal {
  readonly exited: Promise<number | null>
  shown = ''
  readonly #child: ChildProcess
  readonly #waiting = new Set<() => void>()

  /** @param redirect shell text after the command, such as `2>/dev/null` */
  constructor(
    args: readonly string[],
    env: Readonly<Record<string, string>>,
    { columns = 200, redirect = '' }: { columns?: number; redirect?: string } = {},
  ) {
    const words = [process.execPath, ...PROGRAM, ...args].map(quoted).join(' ')
    const command = `stty cols ${columns}; exec ${words} ${redirect}`
    this.#child = spawn('script', ['--quiet', '--return', '--command', command, '/dev/null'], {
      env: { PATH: process.env['PATH'], TERM: 'xterm', SHELL: '/bin/sh', ...env },
      stdio: ['pipe', 'pipe', 'inherit'],
    })
    this.#child.stdout?.setEncoding('utf8').on('data', (text: string) => {
      this.shown += text
      for (const wake of this.#waiting) wake()
    })
    this.exited = once(this.#child, 'close').then(([code]) => {
      for (const wake of this.#waiting) wake()
      return code as number | null
    })
  }

  async shows(text: string): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const fail = (why: string) => reject(new Error(`${why}, expected ${text}:\n${this.shown}`))
    const look = () => {
      if (this.shown.includes(text)) resolve()
      else if (this.#child.exitCode !== null) fail('It ended')
    }
    const cancel = whenOver(DEADLINE_MS, () => fail('Within the deadline it showed'))
    this.#waiting.add(look)
    look()
    await promise.finally(() => {
      cancel()
      this.#waiting.delete(look)
    })
  }

  type(keys: string): void {
    this.#child.stdin?.write(keys)
  }
}

export const CTRL_C = '\x03'
export const CTRL_D = '\x04'
