import { type Logger, symbols } from 'pino'
import type { RequestObservation } from './request-observer.ts'

/** How a request ended, beside what was observed on its way. */
export interface RequestEnd {
  readonly status: number
  readonly durationMs: number
  /** Whether the client left before the end of its answer. */
  readonly aborted: boolean
}

/** The lines on requests, in the logger's own form and place. */
export class AccessLog {
  readonly #logger: Logger
  readonly #write: (line: string) => void
  readonly #clock = new LogClock()

  constructor(logger: Logger) {
    this.#logger = logger
    this.#write = lineWriterOf(logger)
  }

  ended(seen: RequestObservation, end: RequestEnd): void {
    // Asked each time: the level can be changed while the process runs.
    if (this.#logger.isLevelEnabled('info')) this.#write(lineOf(this.#clock.isoNow(), seen, end))
  }
}

/**
 * Pino walks over an object of any form; a line whose fields are known is put together for a fifth of that. Only texts
 * that somebody else chose can hold what JSON would escape.
 */
export function lineOf(time: string, seen: RequestObservation, end: RequestEnd): string {
  let line = `{"level":30,"time":"${time}","requestId":"${seen.requestId}","method":"${seen.method}","route":${quoted(seen.route)}`
  if (end.aborted) line += `,"aborted":"${seen.phase}"`
  else line += `,"status":${end.status},"source":"${seen.source}"`
  if (seen.truncated) line += ',"truncated":true'
  if (seen.shared !== null) line += `,"shared":"${seen.shared}"`
  if (seen.reason !== null) line += `,"reason":"${seen.reason}"`
  if (seen.keyId !== null) {
    line += `,"keyId":${quoted(seen.keyId)},"workspaceId":${quoted(seen.workspaceId ?? '')}`
  }
  if (seen.tier !== null) line += `,"tier":"${seen.tier}"`
  if (seen.fault !== null) line += `,"fault":${quoted(seen.fault)}`
  if (seen.traceId !== null) line += `,"traceId":"${seen.traceId}"`
  if (seen.trace !== null) line += `,"spanId":"${seen.trace.spanId}"`
  return `${line},"durationMs":${inMilliseconds(end.durationMs)},"upstreamMs":${inMilliseconds(seen.upstreamWaitMs)},"msg":"request"}\n`
}

function quoted(text: string): string {
  return JSON.stringify(text)
}

/** What follows the whole milliseconds, for each number of microseconds. */
const FRACTIONS = Array.from({ length: 1000 }, (_, us) => String(us / 1000).slice(1))

/** To the microsecond. V8 remembers the texts of whole numbers, and works out each one with a fraction anew. */
function inMilliseconds(ms: number): string {
  const us = Math.round(ms * 1000)
  return `${Math.floor(us / 1000)}${FRACTIONS[us % 1000]}`
}

/** The stream behind a logger, which pino gives out under a symbol of its own. */
function lineWriterOf(logger: Logger): (line: string) => void {
  const stream: unknown = Reflect.get(logger, symbols.streamSym)
  if (typeof stream !== 'object' || stream === null || !('write' in stream)) {
    throw new Error('The logger has no stream to write to')
  }
  const { write } = stream
  if (typeof write !== 'function') throw new Error('The stream of the logger cannot be written to')
  return line => write.call(stream, line)
}

/** The time as log lines have it, made once for all lines of a millisecond. */
class LogClock {
  #ms = 0
  #iso = ''

  isoNow(): string {
    const nowMs = Date.now()
    if (nowMs !== this.#ms) {
      this.#ms = nowMs
      this.#iso = new Date(nowMs).toISOString()
    }
    return this.#iso
  }
}
