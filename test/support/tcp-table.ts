import { readFile } from 'node:fs/promises'

/** One end of a TCP connection of this machine, as its kernel sees it. */
export interface TcpEnd {
  /** Bytes that were written and that the other end's kernel has not taken yet. */
  readonly unsent: number
  /** Bytes that have arrived and that the program has not read. */
  readonly unread: number
  /** Whether a program holds it; not so before it is accepted, and after it is closed. */
  readonly isHeld: boolean
  /** Whether this end has been ended, so that nothing more will be sent. */
  readonly isEnded: boolean
}

/** ESTABLISHED and CLOSE_WAIT. */
const MAY_SEND = new Set(['01', '08'])

/**
 * Both ends of a connection over the IPv4 loopback. The table is long on a busy machine: it is read off the event loop,
 * and only the two rows are looked at.
 * @returns null for an end that the kernel no longer knows
 */
export async function tcpEnds(onePort: number, otherPort: number): Promise<[TcpEnd | null, TcpEnd | null]> {
  const table = await readFile('/proc/net/tcp', 'latin1')
  return [endIn(table, onePort, otherPort), endIn(table, otherPort, onePort)]
}

function endIn(table: string, localPort: number, remotePort: number): TcpEnd | null {
  const at = table.indexOf(` ${LOOPBACK}:${hex(localPort)} ${LOOPBACK}:${hex(remotePort)} `)
  if (at < 0) return null
  const row = table.slice(at, table.indexOf('\n', at)).trim()
  const [, , state = '', queues = '', , , , , inode] = row.split(/\s+/)
  const [unsent = '', unread = ''] = queues.split(':')
  return {
    unsent: Number.parseInt(unsent, 16),
    unread: Number.parseInt(unread, 16),
    isHeld: inode !== '0',
    isEnded: !MAY_SEND.has(state),
  }
}

const LOOPBACK = '0100007F'

function hex(port: number): string {
  return port.toString(16).toUpperCase().padStart(4, '0')
}
