import { brotliDecompressSync, gunzipSync, inflateSync, zstdDecompressSync } from 'node:zlib'

/** The error body for a request that the upstream rejected. */
export interface Rejection {
  readonly code: string
  readonly error: string
}

type Fields = Readonly<Partial<Record<keyof Rejection, unknown>>>

export const MAX_REJECTION_BYTES = 16 * 1024
const DEFAULT_REJECTION: Rejection = { code: 'upstream_rejected', error: 'The service rejected the request' }

type Decode = (body: Buffer) => Buffer
/** Also limits the decoded body: a few bytes can decode to gigabytes. */
const LIMIT = { maxOutputLength: MAX_REJECTION_BYTES }
const DECODERS: ReadonlyMap<string, Decode> = new Map<string, Decode>([
  ['', body => body],
  ['identity', body => body],
  ['gzip', body => gunzipSync(body, LIMIT)],
  ['x-gzip', body => gunzipSync(body, LIMIT)],
  ['deflate', body => inflateSync(body, LIMIT)],
  ['br', body => brotliDecompressSync(body, LIMIT)],
  ['zstd', body => zstdDecompressSync(body, LIMIT)],
])

/**
 * @param body null if it was longer than `MAX_REJECTION_BYTES` or incomplete
 * @returns the upstream's own `code` and `error` if both are strings, else a default
 */
export function readRejection(
  body: Buffer | null,
  contentEncoding: string | string[] | undefined,
): Rejection {
  const decode = DECODERS.get(String(contentEncoding ?? '').toLowerCase())
  if (body === null || decode === undefined) return DEFAULT_REJECTION
  try {
    // Null has no fields: this throws, too.
    const { code, error }: Fields = JSON.parse(decode(body).toString('utf8'))
    return typeof code === 'string' && typeof error === 'string' ? { code, error } : DEFAULT_REJECTION
  } catch {
    return DEFAULT_REJECTION
  }
}
