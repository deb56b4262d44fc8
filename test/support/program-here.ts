import type { ChildProcess } from 'node:child_process'
import { EventEmitter } from 'node:events'
import { PassThrough, Readable } from 'node:stream'
import type { Host } from '../../src/run/host.ts'

/** They run until a signal; other commands end by themselves. */
const SERVERS: ReadonlySet<string> = new Set(['gateway', 'console', 'demo'])

/**
 * Runs the program in this process, behind the interface of a child process. Mutation testing uses it: a fault planted in the
 * sources is active in the process of the tests only.
 */
export function runProgramHere(args: readonly string[], env: Readonly<Record<string, string>>): ChildProcess {
  const child = new ProgramHere(args, env)
  // The tests use only what `ProgramHere` has.
  return child as unknown as ChildProcess
}

class ProgramHere extends EventEmitter {
  readonly stdout = new PassThrough()
  readonly stderr = new PassThrough()
  readonly pid = process.pid
  exitCode: number | null = null
  signalCode: NodeJS.Signals | null = null
  readonly #onSignal = new Map<string, () => void>()

  constructor(args: readonly string[], env: Readonly<Record<string, string>>) {
    super()
    const host: Host = {
      argv: args,
      nodeVersion: process.versions.node,
      environment: env,
      write: text => void this.stdout.write(text),
      writeError: text => void this.stderr.write(text),
      exit: code => this.#end(code),
      atTerminal: false,
      // As pipes: they have neither a width nor a terminal.
      streams: {
        input: Readable.from([]),
        output: this.stdout,
        errors: this.stderr,
      } as unknown as Host['streams'],
      onSignal: (name, listener) => this.#onSignal.set(name, listener),
      onUncaughtException: () => {},
    }
    import('../../src/cli/program/program.ts')
      .then(({ runProgram }) => runProgram(host))
      .then(() => {
        if (!SERVERS.has(args[0] ?? '')) this.#end(0)
      })
      .catch((error: unknown) => {
        this.stderr.write(String(error))
        this.#end(1)
      })
  }

  /** After SIGKILL, too, a server closes its connections, as the system does for a process that is killed. */
  kill(signal: NodeJS.Signals = 'SIGTERM'): boolean {
    const isKill = signal === 'SIGKILL'
    if (this.exitCode !== null || this.signalCode !== null) return false
    this.#onSignal.get(isKill ? 'SIGTERM' : signal)?.()
    if (isKill) {
      this.signalCode = signal
      this.#close(null)
    }
    return true
  }

  #end(code: number): void {
    if (this.exitCode !== null || this.signalCode !== null) return
    this.exitCode = code
    this.#close(code)
  }

  #close(code: number | null): void {
    this.stdout.end()
    this.stderr.end()
    // A child process closes after its output is read.
    setImmediate(() => this.emit('close', code, this.signalCode))
  }
}
