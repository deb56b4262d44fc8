import { once } from 'node:events'
import { createServer } from 'node:net'
import pg from 'pg'
import { expect, onTestFinished, test } from 'vitest'
import { connectionConfig } from '../../src/console/platform/database/postgres/connection.ts'
import { makeCertificates } from '../support/certificates.ts'

test.each([
  ['postgres://console:p%40ss@db.prod.svc.cluster.local.:5432/postern', 'db.prod.svc.cluster.local'],
  ['postgresql://db.invalid./postern?sslmode=verify-full', 'db.invalid'],
  ['postgres://user:dot.@db.invalid.', 'db.invalid'],
])('%s is a server whose name in TLS has no final dot, and which is resolved with it', async (url, name) => {
  const { stream, ...address } = connectionConfig(url, 'database.url')
  expect(new pg.Client(address).host).toBe(name)
  const socket = stream?.()
  if (!(socket instanceof Object && 'connect' in socket)) throw new Error('No socket of its own')
  const failed = once(socket, 'error')
  // As the driver calls it.
  Reflect.apply(Object(socket).connect, socket, [1, name])
  const [error] = await failed
  expect(error).toMatchObject({ hostname: `${name}.` })
})

test.each([
  ['postgres://console:a.b@db:5432/postern.', 'db'],
  ['postgres://u:p.@[::1]:5432/d', '::1'],
  ['postgres:///postern?host=/run/postgresql.', '/run/postgresql.'],
])('the driver connects to the host of %s itself', (url, host) => {
  const connection = connectionConfig(url, 'database.url')
  expect(connection.host).toBe(host)
  expect(connection.stream).toBeUndefined()
})

test.each([
  [
    'postgres://u:p@db:6000/d?options=-c%20jit%3Doff&sslmode=disable',
    { host: 'db', port: 6000, user: 'u', password: 'p', database: 'd', options: '-c jit=off', ssl: false },
  ],
  ['postgres://db', { host: 'db' }],
  ['postgres://u@db?sslmode=no-verify', { host: 'db', user: 'u', ssl: { rejectUnauthorized: false } }],
  ['postgres://db/d?sslmode=require', { host: 'db', database: 'd', ssl: {} }],
  ['postgres://db:1?sslmode=verify-full&sslrootcert=system', { host: 'db', port: 1, ssl: {} }],
  ['postgres:///d?host=/run/postgresql', { host: '/run/postgresql', database: 'd', ssl: false }],
])('the driver gets what %s says, and no more: the rest it takes from the environment', (url, config) => {
  expect(connectionConfig(url, 'database.url')).toEqual(config)
})

test('with sslmode=verify-ca a certificate of the CA is accepted for any name', async () => {
  const { caFile, remove } = await makeCertificates()
  onTestFinished(remove)
  const url = (mode: string) => `postgres://db?sslmode=${mode}&sslrootcert=${caFile}`
  const { ssl } = connectionConfig(url('verify-ca'), 'database.url')
  if (typeof ssl !== 'object') throw new Error('It speaks no TLS')
  // What Node calls with the name and the certificate of the server; it returns an error for one that is not admitted.
  expect(ssl.checkServerIdentity?.('another', {} as never)).toBeUndefined()
  expect(Object.keys(ssl)).toEqual(['ca', 'checkServerIdentity'])
  const { ssl: full } = connectionConfig(url('verify-full'), 'database.url')
  expect(full).toEqual({ ca: ssl.ca })
})

test('a server at an IPv6 address is reached there', async () => {
  const server = createServer(socket => socket.destroy())
  await once(server.listen(0, '::1'), 'listening')
  onTestFinished(() => void server.close())
  const connected = once(server, 'connection')
  // A server on a port has an address that is an object.
  const { port } = server.address() as { port: number }
  const client = new pg.Client(connectionConfig(`postgres://u@[::1]:${port}/d`, 'database.url'))
  client.on('error', () => {})
  const failed = client.connect().catch(() => {})
  await connected
  await failed
})
