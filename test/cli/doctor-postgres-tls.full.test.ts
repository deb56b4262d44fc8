import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { type Certificates, makeCertificates } from '../support/certificates.ts'
import { doctor } from '../support/doctor.ts'
import { PostgresServer } from '../support/postgres-server.ts'
import { tlsSettings } from '../support/postgres-tls.ts'
import { has, POSTGRES } from '../support/tools.ts'

describe.skipIf(!has(POSTGRES))('of the certificate of PostgreSQL, doctor', () => {
  const directory = mkdtempSync(join(tmpdir(), 'pg-'))
  const servers: PostgresServer[] = []
  let certificates: Certificates
  /** Addresses of databases at servers with these certificates. */
  let valid: string
  let expired: string

  beforeAll(async () => {
    certificates = await makeCertificates()
    const databaseWith = async (name: 'server' | 'expired') => {
      const server = await PostgresServer.temporary(tlsSettings(directory, name, certificates[name]))
      servers.push(server)
      return server.database()
    }
    valid = await databaseWith('server')
    expired = await databaseWith('expired')
  })
  afterAll(async () => {
    for (const server of servers) await server.stop()
    certificates?.remove()
    rmSync(directory, { recursive: true })
  })

  const databaseAt = async (url: string, query: string) => {
    const { found } = await doctor('console', {
      POSTERN_DATABASE_URL: `${url}?${query}`,
      POSTERN_KEYS_SIGNING_SECRETS: randomBytes(32).toString('base64'),
      POSTERN_KEY_SERVICE_TOKEN: 'a-key-service-token-for-tests',
    })
    return found.get('database')
  }
  const ca = () => `sslrootcert=${certificates.caFile}`
  const EXPIRES_SOON = /^ok: PostgreSQL .*\), WARNING: certificate expires in 1 day, renew it$/

  test.each(['verify-full', 'require', 'verify-ca', 'no-verify'])(
    'says with sslmode=%s how long it is valid',
    async mode => {
      expect(await databaseAt(valid, `sslmode=${mode}&${ca()}`)).toMatch(EXPIRES_SOON)
    },
  )

  test('says so where PGSSLMODE alone asks for TLS', async () => {
    vi.stubEnv('PGSSLMODE', 'no-verify')
    try {
      expect(await databaseAt(valid, '')).toMatch(EXPIRES_SOON)
    } finally {
      vi.unstubAllEnvs()
    }
  })

  test('says nothing where the connection is not encrypted', async () => {
    expect(await databaseAt(valid, 'sslmode=disable')).toMatch(/^ok: PostgreSQL .*\)$/)
  })

  test('fails if it has expired, and where it is not verified warns', async () => {
    const verified = await databaseAt(expired, `sslmode=verify-full&${ca()}`)
    expect(verified).toMatch(/^FAILED: .*certificate has expired\. Renew the certificate of the server$/)
    expect(await databaseAt(expired, 'sslmode=no-verify')).toMatch(
      /^ok: .*, WARNING: certificate expired on \d{4}-\d\d-\d\d, renew it$/,
    )
  })
})
