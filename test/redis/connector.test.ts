import type { AddressInfo, Socket } from 'node:net'
import { createServer, type Server } from 'node:net'
import { Redis } from 'ioredis'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { connectorTo, connectorToNode } from '../../src/redis/endpoint.ts'
import { settled, until } from '../support/until.ts'

const TIMEOUT_MS = 1_000
let server: Server
let port: number
const open = new Set<Socket>()
beforeAll(async () => {
  server = createServer(socket => {
    open.add(socket.resume())
    socket.on('close', () => open.delete(socket)).on('error', () => {})
  })
  await new Promise<void>(resolve => void server.listen(0, '127.0.0.1', resolve))
  port = (server.address() as AddressInfo).port
})
afterAll(() => void server.close())

const host = '127.0.0.1'
const connectors = {
  'a server': () =>
    new (connectorTo({ find: () => ({ host, port }), tls: () => null, disconnectTimeoutMs: TIMEOUT_MS }))(),
  'a node of a cluster': () => new (connectorToNode(TIMEOUT_MS))({ host, port }),
}

// A server whose certificate was rejected sends an alert, which is the second error of the connection.
test.each(Object.entries(connectors))(
  'a second error of a connection to %s does not end the process',
  async (_, connect) => {
    const socket = await connect().connect()
    const errors: Error[] = []
    // As ioredis does.
    socket.once('error', error => void errors.push(error))
    for (const message of ['certificate rejected', 'alert']) socket.emit('error', new Error(message))
    expect(errors.map(({ message }) => message)).toEqual(['certificate rejected'])
    socket.destroy()
  },
)

test('a client that is disconnected while it connects leaves no connection, at whichever moment that is', async () => {
  const options = {
    lazyConnect: true,
    retryStrategy: () => null,
    enableReadyCheck: false,
    disableClientInfo: true,
  }
  const Connector = connectorTo({
    find: () => ({ host, port }),
    tls: () => null,
    disconnectTimeoutMs: TIMEOUT_MS,
  })
  const ended: Promise<unknown>[] = []
  for (let moments = 0; moments < 24; moments++) {
    const client = new Redis({ ...options, Connector })
    ended.push(new Promise(resolve => client.once('end', resolve)))
    client.on('error', () => {})
    client.connect().catch(() => {})
    for (let moment = 0; moment < moments; moment++) await Promise.resolve()
    client.disconnect()
    await settled()
  }
  await Promise.all(ended)
  await until('no connection is open', () => open.size === 0)
})
