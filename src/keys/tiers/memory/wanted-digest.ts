export const DIGEST_BYTES = 32
export const DIGEST_WORDS = DIGEST_BYTES / 4

/** The bytes of the digest that was wanted last. */
export const wanted: Readonly<Uint32Array> = new Uint32Array(DIGEST_WORDS)
const bytes = Buffer.from(wanted.buffer)
let text = ''

/**
 * Reads a digest for whoever compares it next. Once only where several look for the same one after the other, as they do
 * for a key that has changed.
 * @param digest 64 hex digits
 * @throws {RangeError} where it is none: it would be compared as the one before it
 */
export function want(digest: string): void {
  if (digest === text) return
  text = ''
  if (digest.length !== 2 * DIGEST_BYTES || bytes.write(digest, 'hex') !== DIGEST_BYTES)
    throw new RangeError('A row is asked for by 64 hex digits')
  text = digest
}
