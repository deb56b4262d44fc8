import type { Writable } from 'node:stream'

/** About what a packet takes. What is more than that goes ahead, so that Redis is at work while the turn lasts. */
const PACKET_BYTES = 1_400

/**
 * To be called before a command is written: it goes to the server together with those that follow in the same turn of
 * the event loop. Each write of its own wakes the server once more, and that costs more than the command.
 */
export function writeTogether(socket: Writable): void {
  if (socket.writableCorked === 0) {
    socket.cork()
    setImmediate(() => socket.uncork())
  } else if (socket.writableLength >= PACKET_BYTES) {
    socket.uncork()
    socket.cork()
  }
}
