/** A string with one character per byte. Node writes it as latin1 together with the head, in one piece. */
export type ByteString = string & { readonly [perByte]: true }
declare const perByte: unique symbol

/** Shared by short strings: allocating a buffer for each doubles the time. */
const scratch = Buffer.alloc(1024)
const MAX_BYTES_PER_UNIT = 3

/** @param body bytes, or a string to encode in UTF-8 */
export function toByteString(body: string | Buffer): ByteString {
  if (typeof body !== 'string') return asByteString(body.toString('latin1'))
  const fits = body.length * MAX_BYTES_PER_UNIT <= scratch.length
  const length = fits ? scratch.write(body) : Buffer.byteLength(body)
  if (length === body.length) return asByteString(body)
  const bytes = fits ? scratch : Buffer.from(body)
  return asByteString(bytes.toString('latin1', 0, length))
}

/** The caller guarantees that no character is above U+00FF and that each one is a byte. */
export function asByteString(text: string): ByteString {
  return text as ByteString
}

export const NO_BYTES = asByteString('')
