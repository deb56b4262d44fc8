import type { Writable } from 'node:stream'
import type { DestinationStream } from 'pino'

/** Some ten thousand lines: a reader that pauses briefly loses none, one that has stopped costs no more memory. */
const MAX_BUFFERED_BYTES = 4 * 1024 * 1024

/** How long a line may wait for others to be written with. */
const BATCH_MS = 10

interface Counter {
  inc(): void
}

/**
 * Writes log lines to standard output without ever waiting for its reader. Above a bound, lines are dropped and counted,
 * and the log says how many once there is room. sonic-boom cannot take this place: with a reader that has stalled it
 * keeps the process from exiting, and after each full pipe it waits 100 ms.
 */
export class LogSink implements DestinationStream {
  readonly #output: Writable
  readonly #dropped: Counter
  readonly #maxBufferedBytes: number
  readonly #later: (flush: () => void) => void
  #isOpen = true
  /** Dropped since the last line that was accepted. */
  #droppedLines = 0
  /** Lines that are written in one call: a call for each would cost 4 % of a forwarded request. */
  #batch = ''

  /** @param output a pipe, which buffers what its reader has not taken; a file or a terminal is written synchronously */
  constructor(
    output: Writable,
    dropped: Counter,
    maxBufferedBytes = MAX_BUFFERED_BYTES,
    later: (flush: () => void) => void = flush => setTimeout(flush, BATCH_MS),
  ) {
    this.#output = output
    this.#dropped = dropped
    this.#maxBufferedBytes = maxBufferedBytes
    this.#later = later
    // A closed pipe or a full disk: without a listener, either would end the process.
    output.on('error', () => {
      this.#isOpen = false
    })
  }

  write(line: string): void {
    if (!this.#hasRoom()) {
      this.#droppedLines++
      this.#dropped.inc()
      return
    }
    if (this.#droppedLines > 0) this.#add(lineAbout(this.#droppedLines))
    this.#droppedLines = 0
    this.#add(line)
  }

  /** Resolves when all lines are written or the deadline has passed; it never rejects. */
  flush(deadlineMs: number): Promise<void> {
    this.#writeBatch()
    if (!this.#isOpen || this.#output.writableLength === 0) return Promise.resolve()
    const { promise, resolve } = Promise.withResolvers<void>()
    const deadline = setTimeout(resolve, deadlineMs)
    this.#output.write('', () => resolve())
    return promise.finally(() => clearTimeout(deadline))
  }

  #add(line: string): void {
    if (this.#batch === '') this.#later(() => this.#writeBatch())
    this.#batch += line
  }

  #writeBatch(): void {
    if (this.#batch === '') return
    const lines = this.#batch
    this.#batch = ''
    this.#output.write(lines)
  }

  /** After a drop, only once half of the buffer is free: else every other line would report the one before. */
  #hasRoom(): boolean {
    const limit = this.#droppedLines > 0 ? this.#maxBufferedBytes / 2 : this.#maxBufferedBytes
    return this.#isOpen && this.#output.writableLength + this.#batch.length < limit
  }
}

function lineAbout(dropped: number): string {
  const time = new Date().toISOString()
  return `${JSON.stringify({ level: 40, time, dropped, msg: 'log output stalled, lines dropped' })}\n`
}
