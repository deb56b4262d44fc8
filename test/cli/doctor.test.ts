import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { MIGRATIONS } from '../../src/console/schema.ts'
import { compareClocks, formatFindings, readClock } from '../../src/doctor/finding.ts'
import { denied } from '../../src/domain/denial.ts'
import { createErrorResponse } from '../../src/gateway/responses.ts'
import { freePort } from '../support/free-port.ts'
import { openDatabase } from '../support/open-database.ts'
import { runPosternHere } from '../support/postern-here.ts'
import { json, type ScriptedUpstream, startScriptedUpstream } from '../support/scripted-upstream.ts'
import { databaseDirectory } from '../support/temporary-directory.ts'

const SECRET = randomBytes(32).toString('base64')
const PASSWORD = 'the-password-of-redis'
let upstream: ScriptedUpstream
let closed = ''

beforeAll(async () => {
  upstream = await startScriptedUpstream(request => request.send(json('{}')))
  closed = `127.0.0.1:${await freePort()}`
})

afterAll(() => upstream.stop())

/** A database that a console has made. */
async function madeDatabase(): Promise<string> {
  const file = join(databaseDirectory(), 'postern.db')
  await (await openDatabase(`sqlite:${file}`)).close()
  return file
}

const consoleOn = (url: string) => ({
  POSTERN_KEYS_SIGNING_SECRETS: SECRET,
  POSTERN_KEY_SERVICE_TOKEN: SECRET,
  POSTERN_DATABASE_URL: url,
})

describe('the lines of postern doctor', () => {
  test('join what a server says and what to do by one mark, with or without a closing mark of the server', () => {
    const finding = { check: 'redis', isOk: false, advice: 'set redis.password' }
    const lines = ['it is disabled.', 'no such record: ', 'refused'].map(found =>
      formatFindings([{ ...finding, found }]),
    )
    expect(lines).toEqual([
      'FAILED  redis  it is disabled: set redis.password\n',
      'FAILED  redis  no such record: set redis.password\n',
      'FAILED  redis  refused: set redis.password\n',
    ])
  })

  test('name what OpenSSL found in its words, without its files and numbers', async () => {
    const server = createServer().listen(0, '127.0.0.1')
    onTestFinished(() => void server.close())
    await once(server, 'listening')
    const url = `https://127.0.0.1:${(server.address() as AddressInfo).port}`
    const { stderr, stdout } = await runPosternHere(['doctor', 'gateway', '--upstream-url', url], {
      POSTERN_KEYS_SIGNING_SECRETS: SECRET,
      POSTERN_REDIS_URL: `redis://${closed}`,
    })
    expect(stdout + stderr).toContain(': tls (wrong version number): set upstream.tls.caFile')
  })
})

describe('postern doctor', () => {
  test('of a gateway says of each dependency that it is ok, or what is wrong and what to do, and exits with 69', async () => {
    const env = {
      POSTERN_KEYS_SIGNING_SECRETS: SECRET,
      POSTERN_REDIS_URL: `redis://:${PASSWORD}@${closed}`,
      POSTERN_UPSTREAM_URL: upstream.url,
    }
    const { code, stdout, stderr } = await runPosternHere(['doctor'], env)
    expect([code, stderr]).toEqual([69, ''])
    expect(stdout.split('\n')).toEqual([
      `FAILED  redis     ${closed}: connect ECONNREFUSED ${closed}: no server listens at this address: start Redis, or check host and port`,
      `ok      upstream  127.0.0.1:${upstream.port} answers with 200`,
    ])
    expect(stdout).not.toContain(PASSWORD)
  })

  test('of a gateway whose key service is a gateway says so: it would reject every key', async () => {
    const body = createErrorResponse(denied('unknown_route')).body
    const gateway = await startScriptedUpstream(request =>
      request.send(json(body).replace('200 OK', '404 Not Found')),
    )
    onTestFinished(() => gateway.stop())
    const env = {
      POSTERN_KEYS_SIGNING_SECRETS: SECRET,
      POSTERN_KEY_SERVICE_URL: gateway.url,
      POSTERN_KEY_SERVICE_TOKEN: SECRET,
      POSTERN_UPSTREAM_URL: upstream.url,
    }
    const { code, stdout } = await runPosternHere(['doctor'], env)
    expect(code).toBe(69)
    expect(stdout).toContain(`FAILED  key service  127.0.0.1:${gateway.port} is a gateway`)
  })

  test('names the IPv6 address of a Redis as an address bar does', async () => {
    const address = closed.replace('127.0.0.1', '[::1]')
    const env = {
      POSTERN_KEYS_SIGNING_SECRETS: SECRET,
      POSTERN_REDIS_URL: `redis://${address}`,
      POSTERN_UPSTREAM_URL: upstream.url,
    }
    const { stdout } = await runPosternHere(['doctor'], env)
    expect(stdout).toContain(`FAILED  redis     ${address}: connect `)
  })

  test('of a console fails where none of its signing secrets signed the keys of the database, with which it would not start', async () => {
    const file = await madeDatabase()
    const database = new DatabaseSync(file)
    database.exec(
      "insert into signing_secrets (fingerprint, first_used_at_ms, signs_audit_at_ms) values ('another', 0, 0)",
    )
    const { code: before } = await runPosternHere(['doctor'], consoleOn(`sqlite:${file}`))
    const insert =
      database.prepare(`insert into keys (id, digest, workspace_id, name, scopes, hint, created_at_ms, created_by,
      expires_at_ms, version, changed_at_ms) values ('key_1', 'digest', 'ws_1', 'a', '[]', 'wsk_…aaaa', 0, 'admin-token', ?, 1, 0)`)
    insert.run(Date.now() + 60_000)
    database.close()
    const { code, stdout } = await runPosternHere(['doctor'], consoleOn(`sqlite:${file}`))
    expect([before, code]).toEqual([0, 69])
    expect(stdout).toContain(
      'FAILED  database  keys.signingSecrets: 1 key of this database is in use or revoked',
    )
    expect(stdout).toContain('Add the former secret at the end of the list')
  })

  test('of a console exits with 0 where the database has its schema, and changes nothing', async () => {
    const file = await madeDatabase()
    const before = readFileSync(file)
    const { code, stdout } = await runPosternHere(['doctor'], consoleOn(`sqlite:${file}`))
    expect([code, stdout]).toEqual([0, `ok      database  SQLite ${file}, schema up to date`])
    expect(readFileSync(file).equals(before)).toBe(true)
  })

  test('migrates nothing: an empty database stays empty', async () => {
    const file = join(databaseDirectory(), 'empty.db')
    writeFileSync(file, '')
    const { code, stdout } = await runPosternHere(['doctor'], consoleOn(`sqlite:${file}`))
    const all = Object.keys(MIGRATIONS).join(', ')
    expect([code, stdout]).toEqual([0, expect.stringContaining(`migrates the schema (${all})`)])
    expect(readFileSync(file)).toHaveLength(0)
  })

  test('--json prints one document', async () => {
    const file = join(databaseDirectory(), 'none.db')
    const { code, stdout } = await runPosternHere(
      ['doctor', 'console', '--json'],
      consoleOn(`sqlite:${file}`),
    )
    const found = `SQLite, no file ${file} yet: the console makes it`
    expect(code).toBe(0)
    expect(JSON.parse(stdout)).toEqual({ checks: [{ ok: true, check: 'database', found, advice: null }] })
  })

  test('names a database that a newer version has written', async () => {
    const file = await madeDatabase()
    const newer = new DatabaseSync(file)
    newer.exec("insert into kysely_migration (name, timestamp) values ('9999_later', '2030')")
    newer.close()
    const { code, stdout } = await runPosternHere(['doctor', 'console'], consoleOn(`sqlite:${file}`))
    expect(code).toBe(69)
    expect(stdout).toMatch(
      /^FAILED {2}database {2}The database was written by a newer Postern: it has 9999_later/,
    )
  })

  test('exits with 78 for a setting that is missing, and 64 for an unknown plane', async () => {
    const missing = await runPosternHere(['doctor', 'gateway'], {})
    expect([missing.code, missing.stderr]).toEqual([78, expect.stringContaining('upstream.url')])
    expect((await runPosternHere(['doctor', 'gatway'], {})).stderr).toContain('(did you mean gateway?)')
  })
})

describe('the clock', () => {
  const times = { sentAtMs: 1_000_000, receivedAtMs: 1_000_400 }
  const reading = (behindMs: number, options = {}) =>
    readClock('the console', 1_000_200 - behindMs, times, options) ?? []

  test('is ok within the limit, and the time that the answer took', () => {
    expect(compareClocks([reading(30_200)].flat())).toMatchObject({
      isOk: true,
      found: 'agrees with the console',
    })
    expect(compareClocks([reading(-30_200)].flat())).toMatchObject({ isOk: true })
  })

  test('is wrong beyond it, and the difference has its direction', () => {
    const ahead = compareClocks([reading(30_201)].flat())
    expect(ahead).toMatchObject({ isOk: false, found: 'this clock is 30.2 s ahead of the console' })
    const behind = compareClocks([reading(-1_201, { limitMs: 1_000 })].flat())
    expect(behind).toMatchObject({ isOk: false, found: 'this clock is 1.2 s behind the console' })
  })

  test('is not checked where no other clock was read', () => {
    expect(compareClocks([])).toBeNull()
    expect(readClock('the upstream', Date.parse('undefined'), times)).toBeUndefined()
  })
})
