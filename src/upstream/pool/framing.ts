import type { Dispatcher } from 'undici'
import type { UpstreamHeaders } from '../response-policy.ts'

const MAX_FIELDS = 100
const MAX_INTERIM_RESPONSES = 10
/** Reading up to this much to its end is cheaper than a new connection. */
const MAX_DISCARDED_BYTES = 64 * 1024

/**
 * Whether the head of a final response defines the end of its body unambiguously (RFC 9112, section 6.3). A body that
 * ends with its connection is rejected, because a truncated one looks complete.
 * @param fieldLines result of `fieldLinesOf`
 */
export function isValidHead(statusCode: number, headers: UpstreamHeaders, fieldLines: number): boolean {
  const length = headers['content-length']
  const coding = headers['transfer-encoding']
  if (statusCode > 599 || fieldLines > MAX_FIELDS) return false
  if (length !== undefined && coding !== undefined) return false
  if (statusCode === 204 || statusCode === 304) return true
  if (coding === undefined) return typeof length === 'string'
  // Any coding except `chunked` alone is close-delimited, or one that the gateway does not decode.
  return typeof coding === 'string' && coding.toLowerCase() === 'chunked'
}

/** @returns number of field lines of the current head; repeated names count each time */
export function fieldLinesOf({ rawHeaders }: Dispatcher.DispatchController): number {
  return Array.isArray(rawHeaders) ? rawHeaders.length / 2 : 0
}

/** Whether the chunk has the length that the head declares. @param headers of a sound head */
export function isCompleteBody(chunk: Buffer, headers: UpstreamHeaders): boolean {
  return Number(headers['content-length']) === chunk.length
}

/** Limits what an exchange may receive beside the needed response: interim responses and discarded bytes. */
export class DiscardLimits {
  #interimResponses = 0
  #discardedBytes = 0

  /** Counts an interim response. @returns whether it is one too many, or a 101, which the gateway never requests */
  exceededByInterim(statusCode: number): boolean {
    this.#interimResponses += 1
    return statusCode === 101 || this.#interimResponses > MAX_INTERIM_RESPONSES
  }

  /** Counts bytes of a discarded body. @returns whether the rest is not worth waiting for */
  exceededByDiscarded(bytes: number): boolean {
    this.#discardedBytes += bytes
    return this.#discardedBytes > MAX_DISCARDED_BYTES
  }
}
