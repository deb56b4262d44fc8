import { once } from 'node:events'
import { connect } from 'node:net'

/** Requests written before the client waits for their responses. */
const BATCH = 250
const STATUS_LINE = /HTTP\/1\.1 (\d{3}) /g
const STATUS_LENGTH = 'HTTP/1.1 200 '.length

/**
 * Pipelines requests over a few connections, many in a row on each, as fast as the server reads them. No request may
 * close its connection.
 * @param next the bytes of a request; called once for each
 * @returns number of responses by status
 */
export async function sendPipelined(
  url: string,
  total: number,
  next: (index: number) => string,
  connections = 4,
): Promise<Map<number, number>> {
  const statuses = new Map<number, number>()
  let sent = 0
  const take = () => {
    const batch: string[] = []
    while (batch.length < BATCH && sent < total) batch.push(next(sent++))
    return batch
  }
  await Promise.all(Array.from({ length: connections }, () => talk(url, take, statuses)))
  return statuses
}

async function talk(url: string, take: () => string[], statuses: Map<number, number>): Promise<void> {
  const { hostname, port } = new URL(url)
  const socket = connect({ host: hostname, port: Number(port), noDelay: true })
  await once(socket, 'connect')
  let owed = 0
  let rest = ''
  const { promise: ended, resolve, reject } = Promise.withResolvers<void>()
  const write = () => {
    const batch = take()
    owed = batch.length
    if (owed === 0) socket.end(resolve)
    else socket.write(batch.join(''), 'latin1')
  }
  socket.on('data', chunk => {
    rest += chunk.toString('latin1')
    let read = 0
    for (const match of rest.matchAll(STATUS_LINE)) {
      const status = Number(match[1])
      statuses.set(status, (statuses.get(status) ?? 0) + 1)
      owed--
      read = match.index + STATUS_LENGTH
    }
    // May be the start of a status line that continues in the next chunk.
    rest = rest.slice(Math.max(read, rest.length - STATUS_LENGTH + 1))
    if (owed === 0) write()
  })
  socket.on('error', reject)
  socket.on('close', () =>
    reject(new Error(`The gateway closed a connection with ${owed} responses outstanding`)),
  )
  write()
  await ended
}
