const BEGINNING = [...Buffer.from('HTTP/1.')]
const [ZERO, ONE, SPACE, CR, LF] = Buffer.from('01 \r\n')

/** Positions in a response after `HTTP/1.x 2`, whose characters are counted from 0. */
const FINAL = -1
/** The head of an interim response: another status line follows it. */
const INTERIM = -2

/**
 * Checks that each response of a connection begins as HTTP/1.0 or 1.1 (RFC 9112, section 4). undici's parser also
 * accepts `HTTP/0.9`, `HTTP/2.0` and `ICE/1.0`, and does not report the version.
 */
export class StatusLineCheck {
  /** The position of the next byte. */
  #position = FINAL
  /** Whether the current line of an interim head is empty so far. */
  #lineIsEmpty = false

  /** Call when a request is sent: the next byte begins a response. */
  expect(): void {
    this.#position = 0
  }

  /** @param bytes the next part of a response @returns false if it is another protocol */
  accepts(bytes: Uint8Array): boolean {
    for (let at = 0; this.#position !== FINAL && at < bytes.length; at++) {
      const byte = bytes[at]
      if (this.#position === INTERIM) this.#passHeadByte(byte)
      else if (!this.#acceptsInLine(byte)) return false
    }
    return true
  }

  #acceptsInLine(byte: number | undefined): boolean {
    const position = this.#position++
    if (position < BEGINNING.length) return byte === BEGINNING[position]
    if (position === BEGINNING.length) return byte === ZERO || byte === ONE
    if (position === BEGINNING.length + 1) return byte === SPACE
    // The first digit of the status.
    this.#position = byte === ONE ? INTERIM : FINAL
    this.#lineIsEmpty = false
    return true
  }

  /** Finds the end of the interim head, with CRLF or LF. The parser validates the head. */
  #passHeadByte(byte: number | undefined): void {
    if (byte === LF && this.#lineIsEmpty) this.#position = 0
    else if (byte === LF) this.#lineIsEmpty = true
    else if (byte !== CR) this.#lineIsEmpty = false
  }
}
