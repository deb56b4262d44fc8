import { hash } from 'node:crypto'

const BLOCK_BYTES = 64
const DIGEST_BYTES = 32

/**
 * A key for HMAC-SHA-256 (RFC 2104, section 2), both padded forms of it made once. Node's own Hmac makes two objects and
 * a buffer for each text, which costs three times as much as the two hashes themselves.
 */
export class HmacKey {
  readonly #outer = Buffer.alloc(BLOCK_BYTES + DIGEST_BYTES)
  readonly #innerPad = Buffer.alloc(BLOCK_BYTES)
  /** The padded key with room for the text; texts of one kind have one length. */
  #inner = Buffer.alloc(0)

  /** @param secret of any length */
  constructor(secret: Uint8Array) {
    const key = secret.length > BLOCK_BYTES ? hash('sha256', secret, 'buffer') : secret
    for (let index = 0; index < BLOCK_BYTES; index++) {
      const byte = key[index] ?? 0
      this.#innerPad[index] = byte ^ 0x36
      this.#outer[index] = byte ^ 0x5c
    }
  }

  /**
   * @param text characters up to U+00FF, a byte each
   * @returns 32 characters up to U+00FF, a byte each
   */
  sign(text: string): string {
    const length = BLOCK_BYTES + text.length
    if (this.#inner.length !== length) {
      this.#inner = Buffer.alloc(length)
      this.#innerPad.copy(this.#inner)
    }
    this.#inner.write(text, BLOCK_BYTES, 'latin1')
    this.#outer.write(hash('sha256', this.#inner, 'binary'), BLOCK_BYTES, 'latin1')
    return hash('sha256', this.#outer, 'binary')
  }
}
