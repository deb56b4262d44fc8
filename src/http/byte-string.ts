/** A text with one character for each byte: written as latin1, it goes out with its head in one piece. */
export type ByteString = string & { readonly [perByte]: true }
declare const perByte: unique symbol

/** For short texts: a buffer for each would take as long again. */
const scratch = Buffer.alloc(1024)
const MOST_BYTES_A_UNIT = 3

/** @returns the bytes, or those of a text in UTF-8 */
export function bytesOf(body: string | Buffer): ByteString {
  if (typeof body !== 'string') return asByteString(body.toString('latin1'))
  const fits = body.length * MOST_BYTES_A_UNIT <= scratch.length
  const length = fits ? scratch.write(body) : Buffer.byteLength(body)
  if (length === body.length) return asByteString(body)
  const bytes = fits ? scratch : Buffer.from(body)
  return asByteString(bytes.toString('latin1', 0, length))
}

/** The cast says only what the caller knows: no character of it is beyond U+00FF, and each stands for a byte. */
export function asByteString(text: string): ByteString {
  return text as ByteString
}

export const NO_BYTES = asByteString('')
