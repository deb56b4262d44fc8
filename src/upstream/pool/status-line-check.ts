import type { Socket } from 'node:net'
import { UpstreamFailure } from '../failure.ts'

const BEGINNING = [...Buffer.from('HTTP/1.')]
const [ZERO, ONE, SPACE, CR, LF] = Buffer.from('01 \r\n')

/** Places in a response beside those within `HTTP/1.x 2`, which are counted from 0. */
const FINAL = -1
/** The head of an interim response: another status line follows it. */
const INTERIM = -2

/**
 * Whether each response of a connection begins as one of HTTP/1.0 or 1.1 does (RFC 9112, section 4). undici's parser also
 * takes `HTTP/0.9`, `HTTP/2.0` and `ICE/1.0`, and does not say which version it read.
 */
export class StatusLineCheck {
  /** The position of the next byte. */
  #place = FINAL
  /** Whether the line of an interim head that is being read has nothing in it yet. */
  #lineIsEmpty = false

  /** A request goes out: what comes next begins a response. */
  expect(): void {
    this.#place = 0
  }

  /** @param bytes what came next, however the response was cut into pieces. @returns false where it is another protocol */
  accepts(bytes: Uint8Array): boolean {
    for (let at = 0; this.#place !== FINAL && at < bytes.length; at++) {
      const byte = bytes[at]
      if (this.#place === INTERIM) this.#passHeadByte(byte)
      else if (!this.#acceptsInLine(byte)) return false
    }
    return true
  }

  #acceptsInLine(byte: number | undefined): boolean {
    const place = this.#place++
    if (place < BEGINNING.length) return byte === BEGINNING[place]
    if (place === BEGINNING.length) return byte === ZERO || byte === ONE
    if (place === BEGINNING.length + 1) return byte === SPACE
    // The first digit of the status.
    this.#place = byte === ONE ? INTERIM : FINAL
    this.#lineIsEmpty = false
    return true
  }

  /** The parser validates the head; this only finds its end, in any spelling. */
  #passHeadByte(byte: number | undefined): void {
    if (byte === LF && this.#lineIsEmpty) this.#place = 0
    else if (byte === LF) this.#lineIsEmpty = true
    else if (byte !== CR) this.#lineIsEmpty = false
  }
}

/** Of a socket, plain or TLS, undici takes bytes with `read()` alone: none gets past this check. */
export function checkStatusLines(socket: Socket, check: StatusLineCheck): void {
  const read = socket.read.bind(socket)
  socket.read = (size?: number) => {
    const bytes: Buffer | null = read(size)
    if (bytes === null || check.accepts(bytes)) return bytes
    socket.destroy(new UpstreamFailure('protocol'))
    return null
  }
}
