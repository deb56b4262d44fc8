import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { connectionConfig } from '../../src/console/platform/database/postgres/connection.ts'
import { makeCertificates } from '../support/certificates.ts'

const certificates = await makeCertificates()
afterAll(() => certificates.remove())
const { caFile, clientCertFile, clientKeyFile } = certificates
const ownKey = join(dirname(caFile), 'server.key')
const missing = join(dirname(caFile), 'missing.pem')
const textOf = (file: string) => readFileSync(file, 'utf8')

const sslOf = (query: Record<string, string>) =>
  connectionConfig(
    `postgres://u@db/d?${new URLSearchParams({ sslmode: 'verify-full', ...query })}`,
    'database.url',
  ).ssl

test('the address of PostgreSQL names the authority and the certificate of the console', () => {
  expect(sslOf({ sslrootcert: caFile, sslcert: clientCertFile, sslkey: clientKeyFile })).toEqual({
    ca: textOf(caFile),
    cert: textOf(clientCertFile),
    key: textOf(clientKeyFile),
  })
  expect(sslOf({ sslrootcert: caFile })).toEqual({ ca: textOf(caFile) })
  expect(sslOf({ sslrootcert: 'system' })).toEqual({})
})

test.each<[Record<string, string>, string]>([
  [{ sslrootcert: missing }, 'database.url: sslrootcert'],
  [{ sslrootcert: clientKeyFile }, 'database.url: sslrootcert'],
  [{ sslcert: missing, sslkey: clientKeyFile }, 'database.url: sslcert'],
  [{ sslcert: clientCertFile, sslkey: missing }, 'database.url: sslkey'],
  [
    { sslcert: clientCertFile, sslkey: ownKey },
    'database.url: sslcert: the private key does not match the certificate',
  ],
])('what is wrong with a file is said with its parameter: %j', (query, text) => {
  expect(() => sslOf(query)).toThrow(text)
})
