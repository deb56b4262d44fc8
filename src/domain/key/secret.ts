import { createHmac, createSecretKey, hash, type KeyObject, timingSafeEqual } from 'node:crypto'

const RANDOM_LENGTH = 43
const MAC_LENGTH = 11
const BASE62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
const BASE62_TEXT = /^[0-9A-Za-z]+$/
/** Form of an opaque key: a token68 (RFC 9110, section 11.2) short enough for a header. */
const OPAQUE_KEY = /^[A-Za-z0-9._~+/-]{1,512}=*$/

interface Signed<Kind> {
  readonly kind: Kind
  readonly prefix: string
  readonly signingKeys: readonly KeyObject[]
}

/**
 * The format of this installation's keys: signed with a MAC by Postern, made by another issuer (`opaque`), or both (`any`).
 * With `any`, a key with the prefix is never one of another issuer: otherwise forging a key would cost a lookup.
 */
export type KeyFormat = Signed<'signed'> | Signed<'any'> | { readonly kind: 'opaque' }

/** Whether the format gives this key no MAC: only a lookup can say whether it exists, and anyone can invent one. */
export function isUnsignedKey(key: string, format: KeyFormat): boolean {
  return format.kind === 'opaque' || (format.kind === 'any' && !key.startsWith(format.prefix))
}

/** The prefix of signed keys; null if keys are opaque. */
export function findKeyPrefix(format: KeyFormat): string | null {
  return format.kind === 'opaque' ? null : format.prefix
}

/** A whole key. Only `reveal()` turns it into text, so that no log or response contains it by accident. */
export class Secret {
  readonly #text: string

  constructor(text: string) {
    this.#text = text
  }

  reveal(): string {
    return this.#text
  }

  toJSON(): never {
    throw new TypeError('A secret cannot be serialised: call reveal() where it is meant to be shown')
  }

  toString(): string {
    return '[secret]'
  }

  [Symbol.for('nodejs.util.inspect.custom')](): string {
    return '[secret]'
  }
}

export function importSigningSecret(bytes: Uint8Array): KeyObject {
  return createSecretKey(bytes)
}

/**
 * A new key: prefix, 256 random bits in 43 base62 characters, and a 64-bit MAC over both in 11.
 * @param random 32 bytes of a cryptographic generator
 */
export function mintSecret(prefix: string, random: Uint8Array, signingKey: KeyObject): Secret {
  if (random.length !== 32) throw new RangeError(`A key needs 32 random bytes, not ${random.length}`)
  const body = prefix + encodeBase62(random)
  return new Secret(body + computeMac(body, signingKey).toString('latin1'))
}

/** Whether the text has the form of a key. Form and MAC are checked before a lookup, so an invalid key costs none. */
export function hasKeyForm(key: string, format: KeyFormat): boolean {
  if (format.kind === 'opaque' || isUnsignedKey(key, format)) return OPAQUE_KEY.test(key)
  const { prefix } = format
  if (key.length !== prefix.length + RANDOM_LENGTH + MAC_LENGTH || !key.startsWith(prefix)) return false
  return BASE62_TEXT.test(key.slice(prefix.length))
}

/** Whether the text ends in something in the form of a signed key. */
export function endsAsKey(text: string, prefix: string): boolean {
  const start = text.length - prefix.length - RANDOM_LENGTH - MAC_LENGTH
  return start >= 0 && text.startsWith(prefix, start) && BASE62_TEXT.test(text.slice(start + prefix.length))
}

/** Whether the text contains anything in the form of a signed key. */
export function holdsKeyForm(text: string, prefix: string): boolean {
  if (text.length < prefix.length + RANDOM_LENGTH + MAC_LENGTH) return false
  for (let at = text.indexOf(prefix); at >= 0; at = text.indexOf(prefix, at + 1)) {
    const start = at + prefix.length
    const body = text.slice(start, start + RANDOM_LENGTH + MAC_LENGTH)
    if (body.length === RANDOM_LENGTH + MAC_LENGTH && BASE62_TEXT.test(body)) return true
  }
  return false
}

/** What admin tokens begin with, which have the form of signed keys. */
export const TOKEN_PREFIX = 'pat_'

/** Whether the text contains anything in the form of a signed key or an admin token: such a text is stored nowhere. */
export function holdsSecretForm(text: string, keyPrefix: string): boolean {
  return [keyPrefix, TOKEN_PREFIX].some(prefix => holdsKeyForm(text, prefix))
}

/** A regular expression for signed keys in other text, in the syntax that JavaScript, RE2 and PCRE share. */
export function keyPattern(prefix: string): string {
  return `\\b${prefix}[0-9A-Za-z]{${RANDOM_LENGTH + MAC_LENGTH}}\\b`
}

/** Whether one of the signing secrets made the key's MAC, if it is to have one. @param key has passed `hasKeyForm` */
export function hasKeyMac(key: string, format: KeyFormat): boolean {
  if (format.kind === 'opaque' || isUnsignedKey(key, format)) return true
  const body = key.slice(0, -MAC_LENGTH)
  const mac = Buffer.from(key.slice(-MAC_LENGTH), 'latin1')
  return format.signingKeys.some(signingKey => timingSafeEqual(mac, computeMac(body, signingKey)))
}

/** Tells signing secrets apart without revealing them: 64 bits of an HMAC over a constant. */
export function fingerprintSecret(signingSecret: Uint8Array): string {
  return createHmac('sha256', signingSecret)
    .update('fingerprint of a signing secret')
    .digest('hex')
    .slice(0, 16)
}

/** SHA-256 of the whole key in lower-case hex: the only form in which a key is stored or looked up. */
export function digestKey(key: string): string {
  return hash('sha256', key, 'hex')
}

/** Prefix, `…`, and the last four characters of the key, by which its owner recognises it. */
export function keyHint(secret: Secret, prefix: string): string {
  return `${prefix}…${secret.reveal().slice(-4)}`
}

/** @returns the first 64 bits of HMAC-SHA-256 in 11 base62 digits, one byte each */
function computeMac(body: string, signingKey: KeyObject): Buffer {
  const mac = createHmac('sha256', signingKey).update(body).digest('hex')
  return encodeUint64(Number.parseInt(mac.slice(0, 8), 16), Number.parseInt(mac.slice(8, 16), 16))
}

/** Divides two 32-bit halves: with a BigInt, rejecting a forged key would cost 3 % more. */
function encodeUint64(high: number, low: number): Buffer {
  const digits = Buffer.allocUnsafe(MAC_LENGTH)
  for (let at = MAC_LENGTH - 1; at >= 0; at--) {
    const highQuotient = Math.floor(high / 62)
    const carried = (high - highQuotient * 62) * 0x1_0000_0000 + low
    const quotient = Math.floor(carried / 62)
    digits[at] = BASE62.charCodeAt(carried - quotient * 62)
    high = highQuotient
    low = quotient
  }
  return digits
}

function encodeBase62(bytes: Uint8Array): string {
  let value = BigInt(`0x${Buffer.from(bytes).toString('hex')}`)
  let text = ''
  for (let digit = 0; digit < RANDOM_LENGTH; digit++) {
    text = BASE62.charAt(Number(value % 62n)) + text
    value /= 62n
  }
  return text
}

/** A shorter text occurs in many harmless texts, and is no secret. */
const MIN_CREDENTIALS_LENGTH = 8
const NONE: readonly string[] = []

/** Values allowed only in `Authorization`: a copy elsewhere would reach logs or the upstream. */
interface StrayKeys {
  /** Prefix of signed keys; null if keys are opaque. */
  readonly prefix: string | null
  /** Credentials of this request that do not have the form of a signed key. */
  readonly credentials: readonly string[]
}

/** @param rawHeaders names and values alternating, as in Node's `rawHeaders` */
export function findStrayKeys(rawHeaders: readonly string[], prefix: StrayKeys['prefix']): StrayKeys {
  let credentials = NONE
  for (let at = 0; at < rawHeaders.length; at += 2) {
    if (!isAuthorization(rawHeaders[at])) continue
    const field = rawHeaders[at + 1] ?? ''
    // `holdsStrayKey` finds a copy of a signed key by its form.
    if (prefix !== null && endsAsKey(field, prefix)) continue
    const presented = stripScheme(field)
    if (presented.length >= MIN_CREDENTIALS_LENGTH) credentials = [...credentials, presented]
  }
  return { prefix, credentials }
}

/** Whether the text contains a key, or the credentials of this request. */
export function holdsStrayKey(text: string, { prefix, credentials }: StrayKeys): boolean {
  if (prefix !== null && holdsKeyForm(text, prefix)) return true
  for (const presented of credentials) if (text.includes(presented)) return true
  return false
}

export function isAuthorization(name: string | undefined): boolean {
  return name?.length === 13 && (name === 'Authorization' || name.toLowerCase() === 'authorization')
}

/** The text after any scheme and its spaces, or the whole text if it has no scheme. */
function stripScheme(field: string): string {
  const space = field.indexOf(' ')
  return space < 0 ? field : field.slice(space).trim()
}
