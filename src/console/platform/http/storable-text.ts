/** Each escape of JSON, one after the other: an escaped backslash before `u0000` makes no NUL. */
const ESCAPE = /\\(?:u([0-9a-f]{4})|[^u])/gi
/** Most bodies have no such escape, and are read once. */
const SUSPICIOUS_ESCAPE = /\\u(?:0000|d[89a-f])/i
const ESCAPE_LENGTH = 6
const HALF = 'A string holds half a surrogate pair'
/** What a request target consists of (RFC 3986, section 2). */
const TARGET = /^[\x21-\x7e]*$/

/** Text that no database stores as it is: PostgreSQL rejects NUL, and half a surrogate pair becomes another character. */
export class UnstorableText extends Error {}

/** @throws UnstorableText if a part of the path or query is not UTF-8, or holds NUL */
export function requireStorableTarget(target: string): void {
  if (!TARGET.test(target)) throw new UnstorableText('The request target has a character outside ASCII')
  requireStorablePercents(target)
}

/** @returns the text of a form, still encoded @throws UnstorableText if it is not UTF-8, or holds NUL */
export function readFormText(bytes: Uint8Array): string {
  const text = decodeUtf8(bytes)
  requireStorablePercents(text)
  return text
}

/** @returns the text of a JSON body @throws UnstorableText if it is not UTF-8, or a string or name in it holds NUL or half a surrogate pair */
export function readJsonText(bytes: Uint8Array): string {
  const text = decodeUtf8(bytes)
  if (SUSPICIOUS_ESCAPE.test(text)) requireStorableEscapes(text)
  return text
}

/** An octet of UTF-8 is percent-encoded or, in a form of a careless client, as it is. */
function requireStorablePercents(text: string): void {
  let decoded: string
  try {
    decoded = decodeURIComponent(text)
  } catch {
    throw new UnstorableText('A percent-encoded part is not UTF-8')
  }
  if (decoded.includes('\0')) throw new UnstorableText('A percent-encoded part holds NUL')
}

/** The escape of a second half must follow that of the first at once: then both are one character. */
function requireStorableEscapes(json: string): void {
  let secondHalfAt = -1
  for (const { 1: digits = '', index } of json.matchAll(ESCAPE)) {
    const unit = Number.parseInt(digits, 16)
    const isSecond = unit >= 0xdc00 && unit <= 0xdfff
    const isDue = secondHalfAt >= 0
    if (isSecond !== isDue || (isDue && index !== secondHalfAt)) throw new UnstorableText(HALF)
    if (unit === 0) throw new UnstorableText('A string holds NUL')
    secondHalfAt = unit >= 0xd800 && unit <= 0xdbff ? index + ESCAPE_LENGTH : -1
  }
  if (secondHalfAt >= 0) throw new UnstorableText(HALF)
}

function decodeUtf8(bytes: Uint8Array): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch {
    throw new UnstorableText('The body is not UTF-8')
  }
}
