import { brotliDecompressSync, gunzipSync, inflateSync, zstdDecompressSync } from 'node:zlib'

/** The error body for a request that the upstream rejected. */
export interface RejectionBody {
  readonly code: string
  readonly error: string
}

export const MAX_REJECTION_BYTES = 16 * 1024
const OWN_WORDS: RejectionBody = { code: 'upstream_rejected', error: 'The service rejected the request' }

type Decode = (body: Buffer) => Buffer
/** A bound on what comes out too: a few bytes can unpack to gigabytes. */
const bound = { maxOutputLength: MAX_REJECTION_BYTES }
const DECODERS: ReadonlyMap<string, Decode> = new Map<string, Decode>([
  ['', body => body],
  ['identity', body => body],
  ['gzip', body => gunzipSync(body, bound)],
  ['x-gzip', body => gunzipSync(body, bound)],
  ['deflate', body => inflateSync(body, bound)],
  ['br', body => brotliDecompressSync(body, bound)],
  ['zstd', body => zstdDecompressSync(body, bound)],
])

/**
 * The upstream's own `code` and `error` where it gave both as texts, else words of ours.
 * @param body null where it was longer than the bound or broke off
 */
export function readRejection(
  body: Buffer | null,
  contentEncoding: string | string[] | undefined,
): RejectionBody {
  const decode = DECODERS.get(String(contentEncoding ?? '').toLowerCase())
  if (body === null || decode === undefined) return OWN_WORDS
  try {
    const json: unknown = JSON.parse(decode(body).toString('utf8'))
    return isRejection(json) ? { code: json.code, error: json.error } : OWN_WORDS
  } catch {
    return OWN_WORDS
  }
}

function isRejection(json: unknown): json is RejectionBody {
  return (
    typeof json === 'object' &&
    json !== null &&
    'code' in json &&
    typeof json.code === 'string' &&
    'error' in json &&
    typeof json.error === 'string'
  )
}
