import { readFile } from 'node:fs/promises'

/** One end of a TCP connection, as this machine's kernel reports it. */
export interface TcpEnd {
  /** Bytes written that the peer's kernel has not yet acknowledged. */
  readonly unsent: number
  /** Bytes received that the program has not yet read. */
  readonly unread: number
  /** Whether a program holds the socket: false before it is accepted and after it is closed. */
  readonly isHeld: boolean
  /** Whether this end has sent FIN. */
  readonly isEnded: boolean
}

/** ESTABLISHED and CLOSE_WAIT. */
const MAY_SEND = new Set(['01', '08'])

/**
 * Both ends of a connection over IPv4 loopback. The table is long on a busy machine, so it is read asynchronously and
 * only the two rows are parsed.
 * @returns null for an end that the kernel no longer lists
 */
export async function tcpEnds(onePort: number, otherPort: number): Promise<[TcpEnd | null, TcpEnd | null]> {
  const table = await readFile('/proc/net/tcp', 'latin1')
  return [endIn(table, onePort, otherPort), endIn(table, otherPort, onePort)]
}

/** @returns time until the kernel probes the idle connection of this end; null if it never does */
export async function keepAliveMs(localPort: number, remotePort: number): Promise<number | null> {
  const [, , , , timer = ''] = rowOf(await readFile('/proc/net/tcp', 'latin1'), localPort, remotePort) ?? []
  const [kind, ticks = ''] = timer.split(':')
  return kind === KEEP_ALIVE_TIMER ? (Number.parseInt(ticks, 16) * 1000) / TICKS_PER_SECOND : null
}

function endIn(table: string, localPort: number, remotePort: number): TcpEnd | null {
  const row = rowOf(table, localPort, remotePort)
  if (row === null) return null
  const [, , state = '', queues = '', , , , , inode] = row
  const [unsent = '', unread = ''] = queues.split(':')
  return {
    unsent: Number.parseInt(unsent, 16),
    unread: Number.parseInt(unread, 16),
    isHeld: inode !== '0',
    isEnded: !MAY_SEND.has(state),
  }
}

/** The columns of one end, from its own address on. */
function rowOf(table: string, localPort: number, remotePort: number): string[] | null {
  const at = table.indexOf(` ${LOOPBACK}:${hex(localPort)} ${LOOPBACK}:${hex(remotePort)} `)
  if (at < 0) return null
  const row = table.slice(at, table.indexOf('\n', at)).trim()
  return row.split(/\s+/)
}

const KEEP_ALIVE_TIMER = '02'
/** USER_HZ, which is 100 on every Linux that Node supports. */
const TICKS_PER_SECOND = 100
const LOOPBACK = '0100007F'

function hex(port: number): string {
  return port.toString(16).toUpperCase().padStart(4, '0')
}
