import { chmodSync, chownSync, copyFileSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { sql } from 'kysely'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { SettingError } from '../../src/domain/errors.ts'
import { type Certificates, makeCertificates } from '../support/certificates.ts'
import { openDatabase } from '../support/open-database.ts'
import { runPostern } from '../support/postern-process.ts'
import { unprivilegedUser } from '../support/postgres-programs.ts'
import { PostgresServer } from '../support/postgres-server.ts'
import { tlsSettings, writeServerFile } from '../support/postgres-tls.ts'
import { SIGNING_SECRET } from '../support/signing-secret.ts'
import { has, POSTGRES } from '../support/tools.ts'
import { until } from '../support/until.ts'
import { pidOf } from '../support/watched-sessions.ts'

/** Only TLS, but for the database in which the test makes others. */
const HBA = `hostnossl postgres all 127.0.0.1/32 scram-sha-256
hostssl all all 127.0.0.1/32 scram-sha-256
`

describe.skipIf(!has(POSTGRES))('a console that starts on PostgreSQL', () => {
  const servers: PostgresServer[] = []
  /** Addresses of databases. */
  let plain: string
  let secured: string
  let misnamed: string
  let certificates: Certificates
  // Short, because the path of a socket is.
  const directory = mkdtempSync(join(tmpdir(), 'pg-'))
  beforeAll(async () => {
    certificates = await makeCertificates()
    plain = await start({ unix_socket_directories: socketDirectory() })
    secured = await withTls('server', certificates.server)
    misnamed = await withTls('misnamed', certificates.misnamed)
  })
  afterAll(async () => {
    for (const server of servers) await server.stop()
    certificates?.remove()
    rmSync(directory, { recursive: true })
  })

  async function start(settings: Readonly<Record<string, string>>): Promise<string> {
    const server = await PostgresServer.temporary(settings)
    servers.push(server)
    return server.database()
  }

  /** Of the server's user, with a path that fits into a socket's name. */
  function socketDirectory(): string {
    const owner = unprivilegedUser()
    chmodSync(directory, 0o755)
    if (owner !== null) chownSync(directory, owner.uid, owner.gid)
    return directory
  }

  function withTls(name: string, pair: Certificates['server']): Promise<string> {
    const hba = writeServerFile(directory, `${name}-hba.conf`, HBA)
    return start({ ...tlsSettings(directory, name, pair), hba_file: hba })
  }

  const refusalOf = async (url: string) => {
    const refusal = await openDatabase(url).catch((error: unknown) => error)
    expect(refusal).toBeInstanceOf(SettingError)
    return String(refusal)
  }
  const of = (address: string, query = '', change: Partial<URL> = {}) => {
    const url = Object.assign(new URL(address), change)
    url.search = query
    return url.href
  }
  const ca = () => `sslrootcert=${certificates.caFile}`

  test.each([
    ['sslmode=require, and no TLS at the server', () => of(plain, 'sslmode=require'), /sslmode=disable/],
    [
      'sslmode=verify-full, and no TLS at the server',
      () => of(plain, 'sslmode=verify-full'),
      /sslmode=disable/,
    ],
    ['no TLS at a server that requires it', () => of(secured, 'sslmode=disable'), /sslmode=verify-full/],
    ['no sslmode at a server that requires TLS', () => of(secured), /sslmode=verify-full/],
    ['a CA that is not known', () => of(secured, 'sslmode=verify-full'), /set sslrootcert/],
    ['sslmode=require, which is verified as well', () => of(secured, 'sslmode=require'), /set sslrootcert/],
    [
      'a certificate for another name',
      () => of(misnamed, `sslmode=verify-full&${ca()}`),
      /for another name.*sslmode=verify-ca/,
    ],
    [
      'a file of the CA that is missing',
      () => of(secured, 'sslmode=verify-full&sslrootcert=/nowhere/ca.pem'),
      /sslrootcert names a file that cannot be read: ENOENT/,
    ],
    [
      'a file of the CA without a certificate',
      () => of(secured, 'sslmode=verify-full&sslrootcert=/etc/hostname'),
      /sslrootcert: the file contains no PEM certificate/,
    ],
    ['a wrong password', () => of(plain, '', { password: 'hunter2' }), /Correct the user or the password/],
    ['no password', () => of(plain, '', { password: '' }), /Correct the user or the password/],
    ['an unknown user', () => of(plain, '', { username: 'nobody2' }), /Correct the user or the password/],
    [
      'an option that PostgreSQL does not know',
      () => of(plain, 'options=-c%20x_y%3D1'),
      /Correct the parameter options/,
    ],
    ['an unknown database', () => of(plain, '', { pathname: '/nowhere' }), /Create the database/],
  ])('with %s ends, and says what to do', async (_, url, advice) => {
    const text = await refusalOf(url())
    expect(text).toMatch(/database\.url: /)
    expect(text).toMatch(advice)
    expect(text).not.toContain('hunter2')
  })

  test('ends with the code for a wrong setting, and one line', async () => {
    const { code, stderr } = await runPostern(['console'], {
      POSTERN_DATABASE_URL: of(plain, 'sslmode=require'),
      POSTERN_KEYS_SIGNING_SECRETS: SIGNING_SECRET.toString('base64'),
      POSTERN_OPS_PORT: '0',
      POSTERN_CONSOLE_PORT: '0',
      POSTERN_CONSOLE_INTERNAL_PORT: '0',
    })
    expect({ code, stderr }).toEqual({
      code: 78,
      stderr: expect.stringMatching(/^database\.url: .*sslmode=disable.*\n$/),
    })
  })

  test.each([
    ['verify-full and the CA', () => of(secured, `sslmode=verify-full&${ca()}`)],
    ['require and the CA', () => of(secured, `sslmode=require&${ca()}`)],
    ['the CA alone', () => of(secured, ca())],
    ['verify-ca for another name', () => of(misnamed, `sslmode=verify-ca&${ca()}`)],
    ['no-verify for another name', () => of(misnamed, 'sslmode=no-verify')],
  ])('speaks TLS with %s', async (_, url) => {
    const { reader, close } = await openDatabase(url())
    const { rows } = await sql<{ ssl: boolean }>`
      select ssl from pg_stat_ssl where pid = pg_backend_pid()`.execute(reader)
    expect(rows).toEqual([{ ssl: true }])
    await close()
  })

  test('trusts a renewed CA from the next session on, and the last good one while its file is being replaced', async () => {
    const [file, others] = [join(directory, 'renewed.pem'), await makeCertificates()]
    onTestFinished(() => others.remove())
    copyFileSync(certificates.caFile, file)
    const { reader, writer, close } = await openDatabase(of(secured, `sslrootcert=${file}`))
    onTestFinished(close)
    const ended = async (pid: number | undefined) => {
      const { rows } = await sql`select from pg_stat_activity where pid = ${pid}`.execute(writer)
      return rows.length === 0
    }
    /** Of a new session. */
    const nextPid = async () => {
      const pid = await pidOf(reader)
      await sql`select pg_terminate_backend(${pid})`.execute(writer)
      await until('the session has ended', () => ended(pid))
      return pidOf(reader)
    }
    writeFileSync(file, 'no certificate')
    const [first, second] = [await nextPid(), await nextPid()]
    expect(first).not.toBe(second)
    rmSync(file)
    expect(await nextPid()).not.toBe(second)
    copyFileSync(others.caFile, file)
    await expect(nextPid()).rejects.toMatchObject({ kind: 'refused' })
    copyFileSync(certificates.caFile, file)
    await pidOf(reader)
  })

  test.each([
    [
      'host as a parameter',
      ({ username, password, port, pathname }: URL) =>
        `postgres://${username}:${password}@${pathname}?host=${directory}&port=${port}`,
    ],
    [
      'host before the path',
      ({ username, password, port, pathname }: URL) =>
        `postgres://${username}:${password}@${encodeURIComponent(directory)}:${port}${pathname}`,
    ],
  ])('connects to a socket with its directory as %s', async (_, urlOf) => {
    const { reader, close } = await openDatabase(urlOf(new URL(plain)))
    const { rows } = await sql<{ address: string | null }>`select inet_client_addr() as address`.execute(
      reader,
    )
    expect(rows).toEqual([{ address: null }])
    await close()
  })
})
