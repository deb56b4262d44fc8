import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'
import { connect as connectTls, createServer as createTlsServer } from 'node:tls'
import { afterEach, expect, test } from 'vitest'
import { disconnect } from '../../src/http/client-connection.ts'
import { selfSigned } from '../support/certificates.ts'

const cleanups: (() => void)[] = []
afterEach(() => {
  for (const cleanUp of cleanups.splice(0)) cleanUp()
})

async function listen(server: Server): Promise<number> {
  await once(server.listen(0, '127.0.0.1'), 'listening')
  cleanups.push(() => server.close())
  // It listens on an address and a port.
  return (server.address() as AddressInfo).port
}

/** @returns the server's side of the connection */
async function connected(server: Server, event: string, client: Socket): Promise<Socket> {
  cleanups.push(() => client.destroy())
  // The type of `once` does not know the event's arguments.
  const [socket] = (await once(server, event)) as [Socket]
  return socket
}

test('a client is reset, and what the kernel holds for it is discarded', async () => {
  const server = createServer()
  const client = connect(await listen(server), '127.0.0.1')
  const socket = await connected(server, 'connection', client)
  const error = once(client, 'error')
  disconnect(socket)
  expect(await error).toMatchObject([{ code: 'ECONNRESET' }])
})

test('a client with TLS, whose connection Node cannot reset, loses it at once too', async () => {
  const certificates = await selfSigned()
  cleanups.push(() => certificates.remove())
  const [key, cert] = [readFileSync(certificates.keyFile), readFileSync(certificates.certFile)]
  const server = createTlsServer({ key, cert })
  const client = connectTls({ port: await listen(server), ca: cert, servername: 'localhost' })
  const socket = await connected(
    server,
    'secureConnection',
    client.on('error', () => {}),
  )
  const closed = once(client.resume(), 'close')
  disconnect(socket)
  expect(socket.destroyed).toBe(true)
  await closed
})
