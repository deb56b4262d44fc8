import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, openSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { until } from '../support/until.ts'
import { pinned } from './pinned.ts'

/** A server process on one core, with its output in a file. */
export class ServerProcess {
  readonly pid: number
  readonly port: number
  /** Time from start until it accepted connections. */
  readonly readyAfterMs: number
  readonly #child: ChildProcess

  private constructor(child: ChildProcess, port: number, readyAfterMs: number) {
    if (child.pid === undefined) throw new Error('The server process has no pid')
    this.#child = child
    this.pid = child.pid
    this.port = port
    this.readyAfterMs = readyAfterMs
  }

  /** @param what.log path without extension */
  static async start(what: {
    core: number
    program: string
    words: readonly string[]
    env?: Readonly<Record<string, string>>
    port: number
    directory: string
    name: string
  }): Promise<ServerProcess> {
    const log = openSync(join(what.directory, `${what.name}.log`), 'a')
    const [program, words] = pinned(what.core, what.program, what.words)
    const beganMs = performance.now()
    const child = spawn(program, words, {
      env: { PATH: process.env['PATH'], ...what.env },
      stdio: ['ignore', log, log],
    })
    closeSync(log)
    await until(`${what.name} listens on ${what.port} (see ${what.directory}/${what.name}.log)`, () => {
      if (child.exitCode !== null) throw new Error(`${what.name} ended: see ${what.directory}`)
      return accepts(what.port)
    })
    return new ServerProcess(child, what.port, performance.now() - beganMs)
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}`
  }

  async stop(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return
    this.#child.kill('SIGTERM')
    const deadline = setTimeout(() => this.#child.kill('SIGKILL'), 3000)
    await once(this.#child, 'exit')
    clearTimeout(deadline)
  }
}

function accepts(port: number): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>()
  const socket = connect(port, '127.0.0.1')
  socket.once('connect', () => resolve(true)).once('error', () => resolve(false))
  return promise.finally(() => socket.destroy())
}
