import type { Duplex } from 'node:stream'

const LINGER_MS = 500

interface ConnectionState {
  /** Answers still owed to requests that were read before. */
  owed: number
  /** Nothing that is read from here on is taken for a request. */
  condemned: boolean
  farewell: string | null
}

/**
 * What becomes of a client's connection once it can no longer be trusted. Requests that follow on it are not handled,
 * and an answer to broken bytes waits for the answers that are owed before it: written at once it would land in the
 * middle of one of them.
 */
export class ClientConnections {
  readonly #states = new WeakMap<Duplex, ConnectionState>()

  /** @returns false where the request must not be handled */
  begin(socket: Duplex): boolean {
    const state = this.#stateOf(socket)
    if (state.condemned) return false
    state.owed++
    return true
  }

  /** The answer to a request that was begun is at its end. */
  ended(socket: Duplex): void {
    const state = this.#stateOf(socket)
    state.owed--
    if (state.owed === 0 && state.farewell !== null) sayFarewell(socket, state.farewell)
  }

  /** The answer under way is the last on this connection. */
  condemn(socket: Duplex): void {
    this.#stateOf(socket).condemned = true
  }

  /** Ends the connection with these bytes, in their turn. @param bytes a whole HTTP answer */
  end(socket: Duplex, bytes: string): void {
    const state = this.#stateOf(socket)
    if (state.condemned) {
      if (state.owed === 0) socket.destroy()
      return
    }
    state.condemned = true
    if (state.owed === 0) sayFarewell(socket, bytes)
    else state.farewell = bytes
  }

  #stateOf(socket: Duplex): ConnectionState {
    let state = this.#states.get(socket)
    if (state === undefined) {
      state = { owed: 0, condemned: false, farewell: null }
      this.#states.set(socket, state)
    }
    return state
  }
}

/**
 * Writes the last answer and ends our side. What the client still sends is read away for a moment: closed over unread
 * bytes, a connection is reset, and the answer may be lost with it (RFC 9112, section 9.6).
 */
function sayFarewell(socket: Duplex, bytes: string): void {
  if (!socket.writable) {
    socket.destroy()
    return
  }
  const deadline = setTimeout(() => socket.destroy(), LINGER_MS)
  socket.once('close', () => clearTimeout(deadline))
  socket.end(bytes)
  socket.resume()
}
