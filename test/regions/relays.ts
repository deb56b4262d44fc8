import { type ChildProcess, fork } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { onTestFinished } from 'vitest'

const PROGRAM = fileURLToPath(new URL('relay-process.ts', import.meta.url))
const STALL_EVERY = 100

/** `slow`: another delay, and every so many chunks a stall of 200 ms. */
export type RelayCall =
  | { readonly do: 'open'; readonly url: string; readonly delayMs: number }
  | { readonly do: 'hold' | 'resume'; readonly port: number }
  | { readonly do: 'slow'; readonly port: number; readonly delayMs: number; readonly stallEvery: number }
  | { readonly do: 'lateness' }

/** A chunk that a relay forwarded later than its delay and stall. */
export interface LateChunk {
  /** When it was forwarded, in ms since the epoch. */
  readonly atMs: number
  readonly lateMs: number
}

export interface RelayAnswer {
  /** Of the relay that was opened. */
  readonly port?: number
  readonly late?: readonly LateChunk[]
}

/** A TCP relay that delays each chunk, and stalls the connection at one in a hundred. */
export interface Relay {
  readonly port: number
  /** Holds everything in both directions; neither side notices. */
  hold(): Promise<unknown>
  resume(): Promise<unknown>
  slow(delayMs: number, stallEvery?: number): Promise<unknown>
}

/** All relays of a test in a process of their own, so that what the test computes delays none. */
export class Relays {
  readonly #process: ChildProcess
  readonly #waiting = new Map<number, (answer: RelayAnswer) => void>()
  #calls = 0

  private constructor(process: ChildProcess) {
    this.#process = process
    process.on('message', ({ id, answer }: { id: number; answer: RelayAnswer }) => {
      this.#waiting.get(id)?.(answer)
      this.#waiting.delete(id)
    })
  }

  /** They stop when the running test ends. */
  static start(): Relays {
    const process = fork(PROGRAM, { execArgv: [] })
    onTestFinished(() => void process.kill('SIGKILL'))
    return new Relays(process)
  }

  get pid(): number {
    return this.#process.pid ?? 0
  }

  async open(url: string, delayMs: number): Promise<Relay> {
    const { port = 0 } = await this.#call({ do: 'open', url, delayMs })
    return {
      port,
      hold: () => this.#call({ do: 'hold', port }),
      resume: () => this.#call({ do: 'resume', port }),
      slow: (delayMs, stallEvery = STALL_EVERY) => this.#call({ do: 'slow', port, delayMs, stallEvery }),
    }
  }

  /** The late chunks since the last call. */
  async takeLate(): Promise<readonly LateChunk[]> {
    return (await this.#call({ do: 'lateness' })).late ?? []
  }

  #call(call: RelayCall): Promise<RelayAnswer> {
    const id = this.#calls++
    const { promise, resolve } = Promise.withResolvers<RelayAnswer>()
    this.#waiting.set(id, resolve)
    this.#process.send({ id, call })
    return promise
  }
}
