import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { whenOver } from './patience.ts'
import { runProgramHere } from './program-here.ts'

/** `TEST_FORM=built` (the full suite) runs the output of `npm run build`, as the image does; otherwise the sources run. */
const ENTRY = fileURLToPath(
  new URL(process.env['TEST_FORM'] === 'built' ? '../../dist/main.js' : '../../src/main.ts', import.meta.url),
)
/** Mutation testing runs gateways in the process of the tests, or all but gateways. */
const HERE = /^(?:console-)?here$/.test(process.env['TEST_FORM'] ?? '')
const RUNS_GATEWAYS_HERE = process.env['TEST_FORM'] === 'here'
/** Compiled code is kept as with `npm start`: that halves the processor time of a start from sources, and takes a tenth off one of the built program. */
const COMPILE_CACHE = fileURLToPath(new URL('../../src/compile-cache.cjs', import.meta.url))
/** Node's arguments to start the program, before the program's own. */
export const PROGRAM: readonly string[] = ['--require', COMPILE_CACHE, ENTRY]
const START_DEADLINE_MS = HERE ? 60_000 : 20_000

export type LogLine = Record<string, unknown>

export interface Exit {
  readonly code: number | null
  readonly stdout: string
  readonly stderr: string
}

/** Runs the program as a process, with exactly the given environment. */
export class PosternProcess {
  readonly child: ChildProcess
  readonly lines: string[] = []
  readonly exited: Promise<Exit>
  #stderr = ''
  /** It has ended, and all of its output is read. */
  #hasClosed = false
  readonly #waiting = new Set<() => void>()

  /** @param launcher program and first arguments, if not those of this checkout */
  constructor(args: readonly string[], env: Readonly<Record<string, string>>, launcher?: readonly string[]) {
    this.child =
      HERE && launcher === undefined && (args[0] === 'gateway') === RUNS_GATEWAYS_HERE
        ? runProgramHere(args, env)
        : runProcess(args, env, launcher)
    const { stdout, stderr } = this.child
    if (stdout === null || stderr === null) throw new Error('The child process has no pipes')
    stderr.setEncoding('utf8').on('data', (text: string) => {
      this.#stderr += text
    })
    createInterface({ input: stdout }).on('line', line => {
      this.lines.push(line)
      for (const wake of this.#waiting) wake()
    })
    this.exited = once(this.child, 'close').then(([code]) => {
      this.#hasClosed = true
      for (const wake of this.#waiting) wake()
      return { code: code as number | null, stdout: this.lines.join('\n'), stderr: this.#stderr }
    })
  }

  /** Log lines so far; output that is not JSON is ignored. */
  get log(): LogLine[] {
    return this.lines.flatMap(line => {
      try {
        return [JSON.parse(line) as LogLine]
      } catch {
        return []
      }
    })
  }

  /** Waits for a line of output. @throws if the process ends first, or the deadline passes */
  async line(wanted: (line: string) => boolean, deadlineMs = START_DEADLINE_MS): Promise<string> {
    const { promise, resolve, reject } = Promise.withResolvers<string>()
    const look = () => {
      const found = this.lines.find(wanted)
      if (found !== undefined) resolve(found)
      else if (this.#hasClosed) {
        reject(
          new Error(
            `The process ended without the expected line:\n${this.lines.join('\n')}\n${this.#stderr}`,
          ),
        )
      }
    }
    const cancel = whenOver(deadlineMs, () =>
      reject(new Error(`No such line within the deadline:\n${this.lines.join('\n')}\n${this.#stderr}`)),
    )
    this.#waiting.add(look)
    look()
    return promise.finally(() => {
      cancel()
      this.#waiting.delete(look)
    })
  }

  async logged(wanted: (line: LogLine) => boolean, deadlineMs?: number): Promise<LogLine> {
    const matches = (text: string) => {
      try {
        return wanted(JSON.parse(text) as LogLine)
      } catch {
        return false
      }
    }
    return JSON.parse(await this.line(matches, deadlineMs)) as LogLine
  }

  async stop(signal: NodeJS.Signals = 'SIGKILL'): Promise<Exit> {
    this.child.kill(signal)
    return this.exited
  }
}

function runProcess(
  args: readonly string[],
  env: Readonly<Record<string, string>>,
  [program = '', ...words]: readonly string[] = [process.execPath, ...PROGRAM],
): ChildProcess {
  return spawn(program, [...words, ...args], {
    env: { PATH: process.env['PATH'], ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
}

export interface Listening {
  readonly process: PosternProcess
  /** Addresses from its `listening` log line: gateway, check, console, internal, ops. */
  readonly urls: Readonly<Record<'gateway' | 'check' | 'console' | 'internal' | 'ops', string>>
}

/** Listeners on this machine alone, on ports that the system chooses. */
export const LOCAL: Readonly<Record<string, string>> = Object.fromEntries(
  ['GATEWAY', 'CONSOLE', 'CONSOLE_INTERNAL', 'OPS'].flatMap(listener => [
    [`POSTERN_${listener}_HOST`, '127.0.0.1'],
    [`POSTERN_${listener}_PORT`, '0'],
  ]),
)

/** Starts a command that listens, and waits until it is ready. @throws if it is not in time; then it is stopped */
export async function startPostern(
  command: string,
  env: Readonly<Record<string, string>>,
  args: readonly string[] = [],
  launcher?: readonly string[],
): Promise<Listening> {
  const started = new PosternProcess([command, ...args], { ...LOCAL, ...env }, launcher)
  const line = await started
    .logged(entry => entry['msg'] === 'listening')
    .catch(async (error: unknown) => {
      await started.stop()
      throw error
    })
  const urlOf = (name: string) => String(line[name] ?? '')
  return {
    process: started,
    urls: {
      gateway: urlOf('gateway'),
      check: urlOf('check'),
      console: urlOf('console'),
      internal: urlOf('internal'),
      ops: urlOf('ops'),
    },
  }
}

/** Runs a command until it exits. */
export async function runPostern(
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<Exit> {
  return new PosternProcess(args, env).exited
}
