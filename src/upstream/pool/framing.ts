import type { Dispatcher } from 'undici'
import type { UpstreamHeaders } from '../response-policy.ts'

const MAX_FIELDS = 100
const MAX_INTERIM_ANSWERS = 10
/** Reading a little to its end is cheaper than a new connection; more than this is not. */
const MAX_DISCARDED_BYTES = 64 * 1024

/**
 * Whether the head of a final answer says, in one way only, where its body ends. A body that the closing of the
 * connection ends looks whole when it was cut, so it is refused; so is any head that two readers could read in two
 * ways (RFC 9112, section 6.3).
 * @param fieldLines of `fieldLinesOf`
 */
export function isSoundHead(statusCode: number, headers: UpstreamHeaders, fieldLines: number): boolean {
  const length = headers['content-length']
  const coding = headers['transfer-encoding']
  if (statusCode > 599 || fieldLines > MAX_FIELDS) return false
  if (length !== undefined && coding !== undefined) return false
  if (statusCode === 204 || statusCode === 304) return true
  if (coding === undefined) return typeof length === 'string'
  // Anything else than `chunked` alone is either close-delimited or not ours to undo.
  return typeof coding === 'string' && coding.toLowerCase() === 'chunked'
}

/** Lines of the head that is being handled, repeated names each counted. */
export function fieldLinesOf({ rawHeaders }: Dispatcher.DispatchController): number {
  return Array.isArray(rawHeaders) ? rawHeaders.length / 2 : 0
}

/** Whether this is all that the head announced. @param headers of a sound head */
export function isWholeBody(chunk: Buffer, headers: UpstreamHeaders): boolean {
  const length = headers['content-length']
  return length !== undefined && Number(length) === chunk.length
}

/** What one exchange brings beside the answer that is wanted of it. */
export class Surplus {
  #interimAnswers = 0
  #discardedBytes = 0

  /** One more interim answer has come. @returns whether it is one too many, or one that was not asked for */
  exceededByInterim(statusCode: number): boolean {
    this.#interimAnswers += 1
    return statusCode === 101 || this.#interimAnswers > MAX_INTERIM_ANSWERS
  }

  /** Counts bytes of a discarded body. @returns whether the rest is not worth waiting for */
  exceededByDiscarded(bytes: number): boolean {
    this.#discardedBytes += bytes
    return this.#discardedBytes > MAX_DISCARDED_BYTES
  }
}
