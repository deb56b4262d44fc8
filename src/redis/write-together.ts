import type { Writable } from 'node:stream'

/** About one packet. Full packets are sent at once, so that Redis works on them during the turn. */
const PACKET_BYTES = 1_400

/**
 * Call before writing a command: sends it together with the commands written later in the same turn of the event loop.
 * Each separate write wakes the server once more, which costs more than the command.
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
