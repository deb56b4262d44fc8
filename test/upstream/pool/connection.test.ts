import { Socket } from 'node:net'
import { afterAll, describe, expect, test } from 'vitest'
import {
  buildUpstreamConnector,
  Connection,
  UpstreamClient,
  type UpstreamSettings,
} from '../../../src/upstream/pool/connection.ts'
import { UpstreamAddresses } from '../../../src/upstream/pool/connector.ts'
import { makeCertificates } from '../../support/certificates.ts'
import { DEFAULT_SETTINGS } from '../../support/forwarding-app.ts'

const ADDRESS = { host: '10.0.0.1', port: 80 }
const MINUTE_MS = 60_000

/** A connection whose socket has read as many bytes as the test says. */
function open(nowMs = 0) {
  const socket = new Socket()
  const read = { bytes: 0 }
  Object.defineProperty(socket, 'bytesRead', { get: () => read.bytes })
  const connection = new Connection()
  connection.replace(socket, ADDRESS, nowMs)
  return { connection, socket, read }
}
const use = (connection: Connection) => {
  connection.claim()
  connection.carry()
}

describe('a connection that breaks is stale, so that its request may be sent again,', () => {
  test('if it carried an earlier exchange and no byte of this response', () => {
    const { connection, read } = open()
    use(connection)
    read.bytes = 100
    expect(connection.isUntouched()).toBe(false)
    use(connection)
    expect(connection.isUntouched()).toBe(true)
    read.bytes = 101
    expect(connection.isUntouched()).toBe(false)
  })

  test('not while it carries its first, nor after it was made anew', () => {
    const { connection, socket } = open()
    expect(connection.isUntouched()).toBe(false)
    use(connection)
    expect(connection.isUntouched()).toBe(false)
    use(connection)
    connection.replace(socket, ADDRESS, 0)
    expect(connection.isUntouched()).toBe(false)
    use(connection)
    expect(connection.isUntouched()).toBe(false)
  })

  test('not if it was claimed before it was made', () => {
    const { socket } = open()
    const connection = new Connection()
    use(connection)
    expect(connection.isUntouched()).toBe(false)
    use(connection)
    connection.replace(socket, ADDRESS, 0)
    expect(connection.isUntouched()).toBe(false)
  })
})

test('a connection is replaced after about a minute, each at another time, while it is open', () => {
  const ages = Array.from({ length: 200 }, () => {
    const { connection } = open(1000)
    let ageMs = 0
    while (!connection.isOld(1000 + ageMs)) ageMs += 100
    return ageMs
  })
  expect(Math.min(...ages)).toBeGreaterThanOrEqual(0.75 * MINUTE_MS)
  expect(Math.max(...ages)).toBeLessThanOrEqual(1.25 * MINUTE_MS)
  expect(new Set(ages).size).toBeGreaterThan(50)
})

test('a connection that is closed or was never made is not old', () => {
  const { connection, socket } = open()
  expect(connection.isOld(2 * MINUTE_MS)).toBe(true)
  socket.destroy()
  expect(connection.isOld(2 * MINUTE_MS)).toBe(false)
  expect(new Connection().isOld(Number.POSITIVE_INFINITY)).toBe(false)
})

test('each response must begin as HTTP/1.x, also the second of a connection', () => {
  const { connection } = open()
  for (let count = 0; count < 2; count++) {
    use(connection)
    expect(connection.accepts(Buffer.from('HTTP/1.1 200 OK'))).toBe(true)
  }
  use(connection)
  expect(connection.accepts(Buffer.from('HTTP/2.0 200 OK'))).toBe(false)
})

test('the address is that of the present socket', () => {
  const { connection } = open()
  expect(connection.address).toBe(ADDRESS)
  connection.replace(null, null, 0)
  expect(connection.address).toBeNull()
})

test('a client that is closed carries no further exchange', async () => {
  const nowMs = () => 0
  const client = new UpstreamClient(
    new URL('http://files.test'),
    {
      addresses: new UpstreamAddresses([], {
        nowMs,
        resolve: expect.unreachable,
        failures: { failed() {}, succeeded() {} },
      }),
      connector: () => expect.unreachable(),
      connectTimeoutMs: 1000,
      nowMs,
    },
    { count: 0 },
  )
  await client.close()
  expect(() => client.send({ path: '/', headers: {} }, {}, false)).toThrow('The client is destroyed')
})

describe('the files of TLS are read at the start, and an error names the setting:', async () => {
  const certificates = await makeCertificates()
  afterAll(() => certificates.remove())
  const { caFile, clientCertFile: certFile, clientKeyFile: keyFile } = certificates
  const build = (tls: UpstreamSettings['tls']) =>
    buildUpstreamConnector({ ...DEFAULT_SETTINGS, url: 'https://files.test', tls })

  test.each(['caFile', 'certFile', 'keyFile'])('%s cannot be read', name => {
    expect(() => build({ caFile, certFile, keyFile, [name]: '/missing' })).toThrow(
      `upstream.tls.${name} names a file that cannot be read`,
    )
  })

  test('an authority or a pair that OpenSSL would take for none', () => {
    expect(() => build({ caFile: keyFile })).toThrow(
      'upstream.tls.caFile: the file contains no PEM certificate',
    )
    expect(() => build({ certFile: caFile, keyFile })).toThrow(
      'upstream.tls.certFile: the private key does not match',
    )
  })

  test('none at all, an authority alone, or all three are fine', () => {
    for (const tls of [{}, { caFile }, { caFile, certFile, keyFile }])
      expect(build(tls)).toBeTypeOf('function')
  })
})
