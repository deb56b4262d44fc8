import type { Writable } from 'node:stream'
import type { DestinationStream } from 'pino'

/** Some ten thousand lines: a reader that pauses for a moment misses none, one that has stopped costs no more than this. */
const MAX_WAITING_BYTES = 4 * 1024 * 1024

/** How long a line may wait for others. What a process says last is handed on by `flushed`. */
const GATHER_MS = 10

/** What the counter of dropped lines is to this. */
interface Counter {
  inc(): void
}

/**
 * The way of log lines to standard output. Whoever reads them there may be slow, stop, or leave, and holds up no request
 * by it: lines that find no room are dropped and counted, and it is said how many once there is room again.
 */
export class LogSink implements DestinationStream {
  readonly #output: Writable
  readonly #dropped: Counter
  readonly #maxWaitingBytes: number
  #isOpen = true
  /** Dropped since the last line that was taken. */
  #missing = 0
  /** Lines that go out together: a write for each would cost as much as half the decision on a key. */
  #gathered = ''
  readonly #soon: (handOn: () => void) => void

  /** @param output a pipe, which takes bytes without waiting for its reader; a file or a terminal is written to at once */
  constructor(
    output: Writable,
    dropped: Counter,
    maxWaitingBytes = MAX_WAITING_BYTES,
    soon: (handOn: () => void) => void = handOn => setTimeout(handOn, GATHER_MS),
  ) {
    this.#soon = soon
    this.#output = output
    this.#dropped = dropped
    this.#maxWaitingBytes = maxWaitingBytes
    // A broken pipe, a full disk: without a listener either would end the process.
    output.on('error', () => {
      this.#isOpen = false
    })
  }

  write(line: string): void {
    if (!this.#hasRoom()) {
      this.#missing++
      this.#dropped.inc()
      return
    }
    if (this.#missing > 0) this.#gather(tellOf(this.#missing))
    this.#missing = 0
    this.#gather(line)
  }

  /** Resolves when all that was taken is written, or when that takes too long. It never rejects. */
  flushed(deadlineMs: number): Promise<void> {
    this.#handOn()
    if (!this.#isOpen || this.#output.writableLength === 0) return Promise.resolve()
    const { promise, resolve } = Promise.withResolvers<void>()
    const deadline = setTimeout(resolve, deadlineMs)
    this.#output.write('', () => resolve())
    return promise.finally(() => clearTimeout(deadline))
  }

  #gather(line: string): void {
    if (this.#gathered === '') this.#soon(() => this.#handOn())
    this.#gathered += line
  }

  #handOn(): void {
    if (this.#gathered === '') return
    const lines = this.#gathered
    this.#gathered = ''
    this.#output.write(lines)
  }

  /** Once lines were dropped, only when half of the room is free again: else every other one would tell of the one before. */
  #hasRoom(): boolean {
    const limit = this.#missing > 0 ? this.#maxWaitingBytes / 2 : this.#maxWaitingBytes
    return this.#isOpen && this.#output.writableLength + this.#gathered.length < limit
  }
}

function tellOf(dropped: number): string {
  const line = {
    level: 40,
    time: new Date().toISOString(),
    dropped,
    msg: 'nobody took the log: lines dropped',
  }
  return `${JSON.stringify(line)}\n`
}
