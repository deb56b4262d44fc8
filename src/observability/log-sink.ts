import type { Writable } from 'node:stream'
import { styleText } from 'node:util'
import { type DestinationStream, type Logger, pino } from 'pino'
import type { CounterHandle } from './metrics/metric-handles.ts'

/** About ten thousand lines: a reader that pauses briefly loses none, and a stopped one costs no more memory than this. */
const MAX_BUFFERED_BYTES = 4 * 1024 * 1024

/** How long a line may wait to be written together with others. */
const BATCH_MS = 10

/** Lines of a batch, and how many it reports as dropped. */
interface BatchLines {
  readonly lines: number
  readonly reported: number
}

const NO_LINES: BatchLines = { lines: 0, reported: 0 }

/** A file has `reopen`: its disk may be full for a while, whereas a pipe that its reader closed stays closed. */
type LogOutput = Writable & { readonly reopen?: () => LogOutput }

/**
 * Writes log lines to standard output without waiting for its reader. Above a limit it drops and counts lines, and logs
 * their number once there is room. sonic-boom is not used: with a stalled reader it prevents the process from exiting, and
 * it waits 100 ms after each full pipe.
 */
export class LogSink implements DestinationStream {
  #output: LogOutput
  readonly #dropped: CounterHandle
  readonly #format: (lines: string) => string
  readonly #maxBufferedBytes: number
  readonly #later: (flush: () => void) => void
  #isOpen = true
  /** Dropped since the last line that was accepted. */
  #droppedLines = 0
  /** Lines to be written in one call: a call for each would cost 4 % of a forwarded request. */
  #batch = ''
  #inBatch = NO_LINES
  /** Those of the batch that was written last: a failed write loses them. */
  #atRisk = NO_LINES
  /** Whether the output may end within a line. */
  #isCut = false

  /**
   * @param output a pipe, which buffers until its reader reads; a file or a terminal is written synchronously
   * @param format of the lines, as they are written
   */
  constructor(
    output: LogOutput,
    dropped: CounterHandle,
    format: (lines: string) => string = lines => lines,
    maxBufferedBytes = MAX_BUFFERED_BYTES,
    later: (flush: () => void) => void = flush => setTimeout(flush, BATCH_MS),
  ) {
    this.#output = output
    this.#dropped = dropped
    this.#format = format
    this.#maxBufferedBytes = maxBufferedBytes
    this.#later = later
    this.#handleErrors(output)
  }

  write(line: string): void {
    if (!this.#hasRoom()) {
      this.#droppedLines++
      this.#dropped.inc()
      return
    }
    if (this.#droppedLines > 0) this.#add(reportLine(this.#droppedLines))
    const { lines, reported } = this.#inBatch
    this.#inBatch = { lines: lines + 1, reported: reported + this.#droppedLines }
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

  /** A closed pipe or a full disk: without a listener, either would end the process. */
  #handleErrors(output: LogOutput): void {
    output.on('error', () => {
      const next = output.reopen?.()
      if (next === undefined) {
        this.#isOpen = false
        return
      }
      this.#output = next
      this.#handleErrors(next)
      const { lines, reported } = this.#atRisk
      this.#droppedLines += lines + reported
      this.#dropped.inc(lines)
      this.#isCut = true
    })
  }

  #add(line: string): void {
    if (this.#batch === '') this.#later(() => this.#writeBatch())
    this.#batch += line
  }

  #writeBatch(): void {
    if (this.#batch === '') return
    const lines = (this.#isCut ? '\n' : '') + this.#batch
    this.#batch = ''
    this.#isCut = false
    this.#atRisk = this.#inBatch
    this.#inBatch = NO_LINES
    this.#output.write(this.#format(lines))
  }

  /** After a drop, true only once half of the buffer is free: otherwise every second line would report one dropped line. */
  #hasRoom(): boolean {
    const limit = this.#droppedLines > 0 ? this.#maxBufferedBytes / 2 : this.#maxBufferedBytes
    return this.#isOpen && this.#output.writableLength + this.#batch.length < limit
  }
}

function reportLine(dropped: number): string {
  const time = new Date().toISOString()
  return `${JSON.stringify({ level: 40, time, dropped, msg: 'log output stalled or failed, lines dropped' })}\n`
}

/** Logs JSON lines. Callers name each field, so that no object is logged whole and no redaction is needed. */
export function createLogger(level: string, destination: DestinationStream): Logger {
  return pino({ level, base: null, timestamp: pino.stdTimeFunctions.isoTime }, destination)
}

const LEVELS = {
  10: ['TRACE', 'gray'],
  20: ['DEBUG', 'gray'],
  30: ['INFO', 'green'],
  40: ['WARN', 'yellow'],
  50: ['ERROR', 'red'],
  60: ['FATAL', 'red'],
} as const

/** Fields of a log line that have a place of their own. */
interface LogLine {
  readonly level?: number
  readonly time?: string
  readonly msg?: string
}

/** Log lines for a person at a terminal: `10:20:30 INFO  listening  gateway=http://127.0.0.1:8080`. @param lines of JSON, each with its end */
export function prettyLines(lines: string): string {
  return lines.replaceAll(/.+/g, prettyLine)
}

function prettyLine(line: string): string {
  let fields: LogLine
  try {
    // This process wrote it: `createLogger` and the access log name each field.
    fields = JSON.parse(line) as LogLine
  } catch {
    return line
  }
  const { level = 30, time = '', msg = '', ...others } = fields
  const [name, colour] = LEVELS[level as keyof typeof LEVELS] ?? LEVELS[30]
  const words = Object.entries(others).map(
    ([field, value]) => `${styleText('gray', `${field}=`)}${textOf(value)}`,
  )
  const head = `${styleText('gray', time.slice(11, 19))} ${styleText(colour, name.padEnd(5))} ${msg}`
  return words.length === 0 ? head : `${head}  ${words.join(' ')}`
}

/** Quoted where it could be taken for more than one field, or would move the cursor: a client chooses some texts. */
function textOf(value: unknown): string {
  if (typeof value === 'string' && /^[\x21\x23-\x3c\x3e-\x7e]+$/.test(value)) return value
  const escaped = (character: string) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`
  return JSON.stringify(value).replaceAll(/[^\x20-\x7e]/g, escaped)
}
