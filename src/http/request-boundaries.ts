import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'

const EMPTY_LINE = Buffer.from('\r\n\r\n')
const CR = 0x0d
const LF = 0x0a
const NO_BYTES = Buffer.alloc(0)

interface Head {
  readonly within: 'head'
  /** Bytes of the request line so far, without its line break and without empty lines before it. */
  lineLength: number
  lineEnded: boolean
  /** The last bytes so far, because the end of a head may be split between two segments. */
  tail: Buffer
}

interface Body {
  readonly within: 'body'
  /** Null for a chunked body, which ends with an empty line as a head does. */
  bytesLeft: number | null
  tail: Buffer
}

/**
 * Finds where one request ends and the next begins in the bytes of a connection. Node's parser decides what is a
 * request; this class only splits the bytes, so that the parser never receives more than one request at a time.
 */
export class RequestBoundaries {
  #position: Head | Body = startOfHead()

  /** Whether no request has been taken in part. */
  get isBetweenRequests(): boolean {
    return this.#position.within === 'head' && this.#position.lineLength === 0
  }

  /** Whether the bytes taken last, or else the next ones, belong to a head. */
  get isWithinHead(): boolean {
    return this.#position.within === 'head'
  }

  /** Length of the request line, as far as it has been taken; 0 within a body. */
  get lineLength(): number {
    return this.#position.within === 'head' ? this.#position.lineLength : 0
  }

  /** Takes bytes up to the end of the current head or body. @returns how many bytes were taken */
  take(bytes: Buffer): number {
    const position = this.#position
    return position.within === 'head' ? takeOfHead(position, bytes) : takeOfBody(position, bytes)
  }

  /** Call when the bytes taken last have completed a head. @returns whether a body follows */
  endHead(headers: IncomingHttpHeaders): boolean {
    const isChunked = headers['transfer-encoding'] !== undefined
    const length = Number(headers['content-length'] ?? 0)
    const hasBody = isChunked || length > 0
    this.#position = hasBody
      ? { within: 'body', bytesLeft: isChunked ? null : length, tail: NO_BYTES }
      : startOfHead()
    return hasBody
  }

  /** Call when the parser has read a complete request. */
  endRequest(): void {
    this.#position = startOfHead()
  }
}

function startOfHead(): Head {
  return { within: 'head', lineLength: 0, lineEnded: false, tail: NO_BYTES }
}

function takeOfHead(head: Head, bytes: Buffer): number {
  const start = head.lineLength === 0 ? lengthOfLineBreaks(bytes) : 0
  const length = takeToEmptyLine(head, bytes, start)
  if (!head.lineEnded) {
    const lineFeed = bytes.indexOf(LF, start)
    head.lineEnded = lineFeed >= start
    head.lineLength += head.lineEnded ? lineFeed - start - 1 : length - start
  }
  return length
}

function takeOfBody(body: Body, bytes: Buffer): number {
  if (body.bytesLeft === null) return takeToEmptyLine(body, bytes, 0)
  const length = Math.min(body.bytesLeft, bytes.length)
  body.bytesLeft -= length
  return length
}

/** Servers skip empty lines before a request (RFC 9112, section 2.2). */
function lengthOfLineBreaks(bytes: Buffer): number {
  let length = 0
  while (bytes[length] === CR || bytes[length] === LF) length++
  return length
}

/** @returns the length up to and including the first empty line after `start`; without one, the length of all bytes */
function takeToEmptyLine(position: { tail: Buffer }, bytes: Buffer, start: number): number {
  const { tail } = position
  if (tail.length > 0) {
    const seam = Buffer.concat([tail, bytes.subarray(0, EMPTY_LINE.length - 1)]).indexOf(EMPTY_LINE)
    if (seam >= 0) {
      position.tail = NO_BYTES
      return seam + EMPTY_LINE.length - tail.length
    }
  }
  const found = bytes.indexOf(EMPTY_LINE, start)
  if (found >= 0) {
    position.tail = NO_BYTES
    return found + EMPTY_LINE.length
  }
  position.tail = Buffer.concat([tail, bytes.subarray(Math.max(start, bytes.length - 3))]).subarray(-3)
  return bytes.length
}

/** Whether a body follows the head, by its framing: an empty one does not count. */
export function hasBody({ headers }: Pick<IncomingMessage, 'headers'>): boolean {
  return headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0
}
