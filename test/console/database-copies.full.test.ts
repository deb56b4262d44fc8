import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { copyFileSync, existsSync, readdirSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { readKeyRow } from '../../src/console/platform/database/key-row.ts'
import { digestKey } from '../../src/domain/key/secret.ts'
import { decodeRecord, deriveRecordKey, encodeRecord, recordKeyName } from '../../src/domain/wire.ts'
import type { AdminResponse } from '../support/admin-response.ts'
import { fillDatabase, readAll } from '../support/filled-database.ts'
import { openDatabase } from '../support/open-database.ts'
import { Parts } from '../support/parts.ts'
import { runPosternHere } from '../support/postern-here.ts'
import { type Exit, PosternProcess, PROGRAM, runPostern } from '../support/postern-process.ts'
import { PostgresServer } from '../support/postgres-server.ts'
import type { RedisServer } from '../support/redis-server.ts'
import { SIGNING_SECRET } from '../support/signing-secret.ts'
import { temporaryDirectory } from '../support/temporary-directory.ts'
import { has, POSTGRES, PRLIMIT } from '../support/tools.ts'
import { until } from '../support/until.ts'

/** So many that a copy takes a while: it is killed in the middle. */
const MANY_KEYS = 8_000
const AUDIT_INTACT = /The audit chain is intact/

const parts = new Parts()
let redis: RedisServer
let postgres: PostgresServer | undefined
let shared: string
beforeAll(async () => {
  shared = await parts.directory('copies')
  await fillDatabase(`sqlite:${join(shared, 'many.db')}`, MANY_KEYS)
  redis = await parts.redis()
  if (has(POSTGRES)) postgres = await parts.own(await PostgresServer.started())
})
afterAll(() => parts.stop())

const environment = (url: string) => ({
  ...parts.shared,
  ...(url === '' ? {} : { POSTERN_DATABASE_URL: url }),
  POSTERN_REDIS_URL: redis.url,
  POSTERN_ADMIN_TOKEN: parts.adminToken,
  POSTERN_KEYS_SIGNING_SECRETS: SIGNING_SECRET.toString('base64'),
  POSTERN_REDIS_COMMAND_TIMEOUT_MS: '2000',
})

/** In this process; those that are killed have their own. */
const database = (url: string, ...args: string[]): Promise<Exit> =>
  runPosternHere(['database', ...args], environment(url))
const databaseApart = (url: string, ...args: string[]): Promise<Exit> =>
  runPostern(['database', ...args], environment(url))
/** Redis holds nothing of a database that a test has filled. */
const copy = (from: string, to: string) => database('', 'copy', from, to, '--without-redis')

/** Starts a command and kills it once it reports progress. */
async function killInTheMiddle(url: string, ...args: string[]): Promise<void> {
  const killed = new PosternProcess(['database', ...args], environment(url))
  if (killed.child.stderr === null) throw new Error('The child process has no pipe')
  await once(killed.child.stderr, 'data')
  expect((await killed.stop('SIGKILL')).code).toBeNull()
}

async function startConsole(url: string) {
  const running = await parts.console(environment(url))
  const send = async (path: string, body?: object): Promise<AdminResponse> => {
    const { json } = await parts.admin(running, body === undefined ? 'GET' : 'POST', path, body)
    return json as unknown as AdminResponse
  }
  const issue = async (name: string) => {
    const { key, secret } = await send('/workspaces/ws_1/keys', { name, scopes: ['files:read'] })
    return { id: key.id, digest: digestKey(secret) }
  }
  onTestFinished(async () => void (await running.process.stop('SIGKILL')))
  return { send, issue, stop: () => running.process.stop('SIGTERM') }
}

async function recordInRedis(digest: string) {
  const text = (await redis.admin.get(recordKeyName(digest))) ?? ''
  const record = decodeRecord(text, digest, [deriveRecordKey(SIGNING_SECRET)])
  return record.ok ? record.grant : null
}

/** So that Redis is that of this installation. */
async function announceOneKey(url: string): Promise<void> {
  const { reader, close } = await openDatabase(url)
  const { record, digest } = readKeyRow(
    await reader.selectFrom('keys').selectAll().orderBy('id').executeTakeFirstOrThrow(),
  )
  await close()
  await redis.admin.set(recordKeyName(digest), encodeRecord(record, digest, deriveRecordKey(SIGNING_SECRET)))
}

const engines = {
  SQLite: async () => `sqlite:${join(temporaryDirectory(), 'postern.db')}`,
  PostgreSQL: async () => (await postgres?.database()) ?? '',
}

/** Filling takes a second of processor time, copying a file none. */
function sqliteOfManyKeys(): string {
  const file = join(temporaryDirectory(), 'postern.db')
  copyFileSync(join(shared, 'many.db'), file)
  return `sqlite:${file}`
}

const ofManyKeys = {
  SQLite: async () => sqliteOfManyKeys(),
  PostgreSQL: async () => {
    const url = await engines.PostgreSQL()
    await fillDatabase(url, MANY_KEYS)
    return url
  },
}

describe.each(['SQLite', 'PostgreSQL'] as const)('%s', name => {
  const createUrl = engines[name]
  const skipped = name === 'PostgreSQL' && !has(POSTGRES)

  test.skipIf(skipped)(
    'what was revoked after a backup stays revoked after its restore, and every record is announced again',
    async () => {
      const url = await createUrl()
      const backup = join(temporaryDirectory(), 'backup.db')
      const console = await startConsole(url)
      const [a, b, d] = [await console.issue('a'), await console.issue('b'), await console.issue('d')]
      const token = await console.send('/tokens', {
        name: 'ci',
        permissions: ['keys:read'],
        expiresInDays: 9,
      })
      const saved = await database(url, 'backup', backup)
      expect(saved).toMatchObject({ code: 0, stdout: expect.stringContaining('Saved 3 keys') })
      expect(statSync(backup).mode & 0o777).toBe(0o600)
      await console.send(`/keys/${a.id}/revoke`, {})
      await console.send(`/keys/${d.id}/suspend`, {})
      const c = await console.issue('c')
      await until('all is announced', async () => (await recordInRedis(c.digest)) !== null)
      expect((await database(url, 'restore', backup, '--replace')).code).toBe(65)
      await console.stop()
      const refused = await database(url, 'restore', backup)
      expect(refused.stderr).toContain('--replace')
      expect(refused.stderr).not.toMatch(/\b(?:done|restored|copied)\b/)

      const restored = await database(url, 'restore', backup, '--replace')
      expect(restored.stderr).not.toMatch(/error/i)
      expect(restored.stderr).toContain('3 of 3 keys compared with Redis\n')
      if (name === 'PostgreSQL') expect(restored.stderr).toContain('rows written, not committed yet\n')
      expect(restored).toMatchObject({
        code: 0,
        stdout: expect.stringContaining('1 key revoked since the backup'),
      })
      expect((await runPosternHere(['audit', 'verify'], environment(url))).stdout).toMatch(AUDIT_INTACT)
      const again = await startConsole(url)
      expect((await again.send(`/keys/${a.id}`)).key).toMatchObject({ state: 'revoked' })
      expect((await again.send(`/keys/${b.id}`)).key).toMatchObject({ state: 'active' })
      expect((await again.send(`/keys/${d.id}`)).key).toMatchObject({ state: 'suspended' })
      expect(await again.send(`/keys/${c.id}`)).toMatchObject({ code: 'not_found' })
      const tokens = (await again.send('/tokens')) as unknown as {
        tokens: { id: string; revokedAt: string }[]
      }
      expect(tokens.tokens[0]).toMatchObject({
        id: (token as unknown as { token: { id: string } }).token.id,
        revokedAt: expect.any(String),
      })
      const entries = (await again.send('/audit?action=database.restored')) as unknown as {
        entries: object[]
      }
      expect(entries.entries).toMatchObject([{ detail: { keys: 3, revokedSince: 1, changedSince: 1 } }])
      for (const key of [a, b, d]) {
        await until(
          'the record is announced',
          async () => ((await recordInRedis(key.digest))?.version ?? 0) > 1000,
        )
      }
      expect((await recordInRedis(a.digest))?.revokedAtMs).not.toBeNull()
    },
  )

  test.skipIf(skipped)('a backup that is killed leaves no file under its name', async () => {
    const url = await ofManyKeys[name]()
    const directory = temporaryDirectory()
    const backup = join(directory, 'backup.db')
    await killInTheMiddle(url, 'backup', backup)
    expect(existsSync(backup)).toBe(false)
    expect((await database(url, 'backup', backup)).code).toBe(0)
    expect(readdirSync(directory)).toEqual(['backup.db'])
  })

  test.skipIf(skipped || !has(PRLIMIT))(
    'a backup that finds no room leaves no file and says so',
    async () => {
      const url = await createUrl()
      const directory = temporaryDirectory()
      await fillDatabase(url, 1000)
      const launcher = ['prlimit', '--fsize=300000', process.execPath, ...PROGRAM]
      const backup = new PosternProcess(
        ['database', 'backup', join(directory, 'backup.db')],
        environment(url),
        launcher,
      )
      const { code, stderr } = await backup.exited
      expect({ code, stderr }).toMatchObject({
        code: 65,
        stderr: expect.stringContaining('cannot be written'),
      })
      expect(readdirSync(directory)).toEqual([])
    },
  )

  test.skipIf(skipped)('a restore that is killed leaves the database as it was', async () => {
    const url = await ofManyKeys[name]()
    const backup = join(temporaryDirectory(), 'backup.db')
    expect((await database(url, 'backup', backup)).code).toBe(0)
    const before = await readAll(url)
    await announceOneKey(url)
    const restore = ['restore', backup, '--replace', '--allow-missing']
    await killInTheMiddle(url, ...restore)
    expect(await readAll(url)).toEqual(before)
    expect((await database(url, ...restore)).code).toBe(0)
    const after = await readAll(url)
    expect(after['keys']).toHaveLength(MANY_KEYS)
    // Every key is announced to every region.
    const regions = after['regions'] ?? []
    expect(regions.length).toBeGreaterThan(0)
    expect(after['outbox']).toHaveLength(MANY_KEYS * regions.length)
    expect(after['sessions']).toEqual([])
  })
})

describe.skipIf(!has(POSTGRES))('a copy from SQLite to PostgreSQL and back', () => {
  test('has every row of every table, and the audit chain', async () => {
    const [from, to] = [await engines.SQLite(), await engines.PostgreSQL()]
    const back = await engines.SQLite()
    await fillDatabase(from, 1200)
    const rows = await readAll(from)
    expect(Object.entries(rows).filter(([, held]) => held.length === 0)).toEqual([])
    const copied = await copy(from, to)
    expect(copied).toMatchObject({ code: 0, stdout: expect.stringMatching(/^Copied \d+ rows/) })
    expect(await readAll(to)).toEqual(rows)
    expect((await copy(to, back)).code).toBe(0)
    // The entry that waits in the queue keeps its signature: the next console adds it to the chain.
    expect(await readAll(back)).toEqual(rows)
    expect(rows['audit']).toHaveLength(1200)
    expect(rows['audit_queue']).toMatchObject([{ id: 'audit_q', rejected_at_ms: null }])
    const next = await startConsole(back)
    await until('the entry is in the chain', async () => (await readAll(back))['audit_queue']?.length === 0)
    await next.stop()
    const { audit, audit_queue } = await readAll(back)
    expect([audit?.length, audit_queue]).toEqual([1201, []])
    expect((await runPosternHere(['audit', 'verify'], environment(back))).stdout).toMatch(AUDIT_INTACT)
    expect((await copy(from, to)).stderr).toContain('holds data, so nothing was changed')
    expect((await copy(from, back)).stderr).toContain('holds data, so nothing was changed')
  })

  test.each(['PostgreSQL', 'SQLite'] as const)(
    'to %s leaves the target empty if it is killed, and can be repeated',
    async kind => {
      const [from, to] = [sqliteOfManyKeys(), await engines[kind]()]
      await killInTheMiddle('', 'copy', from, to, '--without-redis')
      const after = await readAll(to)
      expect(after['keys']).toEqual([])
      if (kind === 'SQLite') return
      expect((await copy(from, to)).code).toBe(0)
    },
  )

  test('is refused while a console runs', async () => {
    for (const url of [await engines.SQLite(), await engines.PostgreSQL()]) {
      await startConsole(url)
      const { code, stderr } = await copy(url, await engines.SQLite())
      expect({ code, stderr }).toMatchObject({ code: 65, stderr: expect.stringMatching(/console uses/) })
    }
  })
})

test('a restore refuses what is no good backup, and changes nothing', async () => {
  const url = await engines.SQLite()
  const directory = temporaryDirectory()
  const good = join(directory, 'good.db')
  await fillDatabase(url, 600)
  expect((await database(url, 'backup', good)).code).toBe(0)
  const damaged = join(directory, 'damaged.db')
  copyFileSync(good, damaged)
  execFileSync('truncate', ['--size=120K', damaged])
  const forged = join(directory, 'forged.db')
  copyFileSync(good, forged)
  const editor = new DatabaseSync(forged)
  // The trigger stands there again afterwards: the schema shows nothing.
  const trigger = editor.prepare("select sql from sqlite_master where name = 'audit_refuses_update'").get()
  editor.exec("drop trigger audit_refuses_update; update audit set actor = 'eve' where sequence = 5")
  editor.exec(String(trigger?.['sql']))
  editor.close()
  const newer = join(directory, 'newer.db')
  copyFileSync(good, newer)
  const later = new DatabaseSync(newer)
  later.exec("insert into kysely_migration (name, timestamp) values ('9999_later', '2030')")
  later.close()
  const dump = join(directory, 'archive.dump')
  writeFileSync(dump, 'PGDMP and more')
  const before = await readAll(url)
  for (const [file, reason] of [
    [damaged, /damaged|malformed/],
    [forged, /audit chain of \S+forged\.db is broken: changed: entry 5,/],
    [newer, /newer Postern/],
    [dump, /pg_restore/],
    [join(directory, 'missing.db'), /cannot be read: ENOENT/],
  ] as const) {
    const { code, stderr } = await database(url, 'restore', file, '--replace', '--without-redis')
    expect({ code: code !== 0, stderr }).toEqual({ code: true, stderr: expect.stringMatching(reason) })
  }
  expect(await readAll(url)).toEqual(before)
})

test('of two backups to one name at once, one is saved whole, and the other says that the name is taken', async () => {
  const url = sqliteOfManyKeys()
  const directory = temporaryDirectory()
  const backup = join(directory, 'backup.db')
  const exits = await Promise.all([1, 2].map(() => databaseApart(url, 'backup', backup)))
  expect(exits.map(({ code }) => code).toSorted()).toEqual([0, 65])
  expect(exits.map(({ stderr }) => stderr).join()).toContain(`${backup} exists already`)
  expect(readdirSync(directory)).toEqual(['backup.db'])
  expect(await readAll(`sqlite:${backup}`)).toEqual(await readAll(url))
  const forced = await Promise.all([1, 2].map(() => databaseApart(url, 'backup', backup, '--force')))
  expect(forced.map(({ code }) => code)).toEqual([0, 0])
  expect(await readAll(`sqlite:${backup}`)).toEqual(await readAll(url))
})

test('a folder keeps the newest backups', async () => {
  const url = await engines.SQLite()
  const folder = temporaryDirectory()
  await fillDatabase(url, 1)
  for (const name of ['postern-20260101T000000Z.db', 'postern-20260102T000000Z.db', 'notes.db']) {
    writeFileSync(join(folder, name), '')
  }
  const { stdout } = await database(url, 'backup', folder, '--keep', '2')
  expect(stdout).toMatch(/Deleted \S+postern-20260101T000000Z\.db$/)
  expect(readdirSync(folder)).toEqual([
    'notes.db',
    'postern-20260102T000000Z.db',
    expect.stringMatching(/^postern-\d{8}T\d{6}Z\.db$/),
  ])
})

test('a folder keeps the backup that was just saved, also where a clock that was ahead has named others after a later time', async () => {
  const url = await engines.SQLite()
  const folder = temporaryDirectory()
  await fillDatabase(url, 1)
  const later = ['postern-20990101T000000Z.db', 'postern-20990102T000000Z.db']
  for (const name of ['postern-20260101T000000Z.db', ...later]) writeFileSync(join(folder, name), '')
  const { code, stderr } = await database(url, 'backup', folder, '--keep', '1')
  expect([code, stderr]).toEqual([0, expect.stringContaining(later.join(', '))])
  expect(readdirSync(folder)).toEqual([expect.stringMatching(/^postern-20\d{6}T\d{6}Z\.db$/), ...later])
})
