import { hash } from 'node:crypto'
import { HmacKey } from './hmac-key.ts'

const RANDOM_LENGTH = 43
const MAC_LENGTH = 11
const BASE62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
const BASE62_TEXT = /^[0-9A-Za-z]+$/
/** What an opaque key may look like: a token68 of RFC 9110, section 11.2, of a length that a header can hold. */
const OPAQUE_KEY = /^[A-Za-z0-9._~+/-]{1,512}=*$/

/** How keys of this installation are made: with our form and MAC, or by somebody else (`opaque`). */
export type KeyFormat =
  | { readonly kind: 'signed'; readonly prefix: string; readonly signingKeys: readonly HmacKey[] }
  | { readonly kind: 'opaque' }

/** A whole key. It can be revealed once and on purpose, and in no other way be turned into text. */
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

export function importSigningSecret(bytes: Uint8Array): HmacKey {
  return new HmacKey(bytes)
}

/**
 * A new key: prefix, 256 random bits in 43 base62 characters, and a 64-bit MAC over both in 11.
 * @param random 32 bytes of a cryptographic generator
 */
export function mintSecret(prefix: string, random: Uint8Array, signingKey: HmacKey): Secret {
  if (random.length !== 32) throw new RangeError(`A key needs 32 random bytes, not ${random.length}`)
  const body = prefix + encodeBase62(random)
  return new Secret(body + macOf(body, signingKey))
}

/** The form and the MAC are checked before anything is asked of a store: junk costs no look-up. */
export function isWellFormedKey(key: string, format: KeyFormat): boolean {
  if (format.kind === 'opaque') return OPAQUE_KEY.test(key)
  const { prefix } = format
  if (key.length !== prefix.length + RANDOM_LENGTH + MAC_LENGTH || !key.startsWith(prefix)) return false
  if (!BASE62_TEXT.test(key.slice(prefix.length))) return false
  const body = key.slice(0, -MAC_LENGTH)
  const mac = key.slice(-MAC_LENGTH)
  return format.signingKeys.some(signingKey => equalInConstantTime(mac, macOf(body, signingKey)))
}

/** SHA-256 of the whole key in lower-case hex: the only form in which a key is stored or looked up. */
export function digestOf(key: string): string {
  return hash('sha256', key, 'hex')
}

/** Prefix, `…`, and the last four characters of the random part. */
export function hintOf(secret: Secret, prefix: string): string {
  const random = secret.reveal().slice(prefix.length, prefix.length + RANDOM_LENGTH)
  return `${prefix}…${random.slice(-4)}`
}

function macOf(body: string, signingKey: HmacKey): string {
  const mac = signingKey.sign(body)
  return encodeUint64(Number.parseInt(mac.slice(0, 8), 16), Number.parseInt(mac.slice(8, 16), 16))
}

/** 64 bits as 11 base62 digits by long division of two 32-bit halves: a BigInt would cost more than the HMAC. */
function encodeUint64(high: number, low: number): string {
  let text = ''
  for (let digit = 0; digit < MAC_LENGTH; digit++) {
    const carried = (high % 62) * 0x1_0000_0000 + low
    high = Math.floor(high / 62)
    low = Math.floor(carried / 62)
    text = BASE62.charAt(carried % 62) + text
  }
  return text
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

/** Both texts have one length here; the time taken tells nothing of where they differ. */
function equalInConstantTime(a: string, b: string): boolean {
  let difference = a.length ^ b.length
  for (let index = 0; index < a.length; index++) difference |= a.charCodeAt(index) ^ b.charCodeAt(index)
  return difference === 0
}
