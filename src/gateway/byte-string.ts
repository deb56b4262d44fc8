/** A text with one character for each byte: written as latin1, it goes out with its head in one piece. */
export type ByteString = string & { readonly [perByte]: true }
declare const perByte: unique symbol

/** @returns the bytes, or those of a text in UTF-8 */
export function bytesOf(body: string | Buffer): ByteString {
  if (typeof body !== 'string') return asByteString(body.toString('latin1'))
  const isAscii = Buffer.byteLength(body) === body.length
  return asByteString(isAscii ? body : Buffer.from(body).toString('latin1'))
}

/** The cast says only what the caller knows: no character of it is beyond U+00FF, and each stands for a byte. */
export function asByteString(text: string): ByteString {
  return text as ByteString
}

export const NO_BYTES = asByteString('')
