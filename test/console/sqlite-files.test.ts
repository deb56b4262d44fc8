import {
  copyFileSync,
  existsSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { sql } from 'kysely'
import { expect, test } from 'vitest'
import { Refused } from '../../src/console/platform/database/database.ts'
import {
  checkIntegrity,
  codeOrMessage,
  copyPages,
  diskTroubleIn,
  isEmptyOrMissing,
  isLockedSqliteFile,
  lockSqliteFile,
  makeSingleFile,
  requireSqliteFile,
  sqliteFilePath,
} from '../../src/console/platform/database/sqlite/database.ts'
import { openDatabase as openMigrated } from '../../src/console/platform/open-database.ts'
import { MIGRATIONS } from '../../src/console/schema.ts'
import { SettingError, StartError } from '../../src/domain/errors.ts'
import { openDatabase } from '../support/open-database.ts'
import { databaseDirectory } from '../support/temporary-directory.ts'

const at = (name: string) => join(databaseDirectory(), name)

/** @returns the path of a file with this content */
function written(name: string, content: string | Buffer): string {
  const file = at(name)
  writeFileSync(file, content)
  return file
}

/** How often this process has the file open. */
function openings(file: string): number {
  const links = readdirSync('/proc/self/fd').map(descriptor => {
    try {
      return readlinkSync(`/proc/self/fd/${descriptor}`)
    } catch {
      // That of the folder itself has ended.
      return ''
    }
  })
  return links.filter(link => link === file).length
}

/** A file of 2,000 pages, as a console has it. */
function filled(): { file: string; console: DatabaseSync } {
  const file = at('postern.db')
  const console = new DatabaseSync(file)
  console.exec(`pragma journal_mode = wal; create table t (n integer primary key, text);
    with recursive s (n) as (select 1 union all select n + 1 from s where n < 2000)
    insert into t select n, hex(zeroblob(2000)) from s`)
  return { file, console }
}

test.each([
  ['sqlite:postern.db', 'postern.db'],
  ['sqlite:a\nb', 'a\nb'],
  ['sqlite:', null],
  ['xsqlite:a', null],
  ['postgres://db/sqlite:a', null],
])('%j names the SQLite file %j', (url, file) => {
  expect(sqliteFilePath(url)).toBe(file)
})

test('a file that is no SQLite database is refused with what it is, and an archive with how to restore it', async () => {
  const file = at('postern.db')
  await (await openDatabase(`sqlite:${file}`)).close()
  await requireSqliteFile(file)
  const dump = written('a.dump', 'PGDMP and more of it')
  const refusals: readonly (readonly [file: string, text: string])[] = [
    [written('empty', ''), 'the backup is empty'],
    [written('short', 'SQLite format 3'), 'the backup is not a SQLite database'],
    [written('other', 'xPGDMP'), 'the backup is not a SQLite database'],
    [
      dump,
      'the backup is an archive of pg_dump. Restore it with pg_restore: see docs/operate/backup.md, section "With the tools of PostgreSQL"',
    ],
    [at('gone'), 'the backup cannot be read: ENOENT, it does not exist, or its folder does not'],
    [databaseDirectory(), 'the backup cannot be read: EISDIR, it is a folder'],
    [join(dump, 'a'), 'the backup cannot be read: ENOTDIR, a part of its path is not a folder'],
  ]
  for (const [from, text] of refusals) {
    await expect(requireSqliteFile(from, 'the backup')).rejects.toThrow(new Refused(text))
  }
  await expect(requireSqliteFile(dump)).rejects.toThrow(`${dump} is an archive`)
})

test.each([
  ['EACCES', 'EACCES, this user has no permission'],
  ['EPERM', 'EPERM, this user has no permission'],
  ['EROFS', 'EROFS, the file system is read-only'],
  ['ENOSPC', 'ENOSPC, the disk is full'],
  ['EMFILE', 'EMFILE'],
  ['ERR_SQLITE_ERROR', 'said'],
  ['XEIO', null],
  ['EIO_1', null],
])('an error with the code %s is trouble with a disk: %s', (code, text) => {
  expect(diskTroubleIn(Object.assign(new Error('said'), { code }))).toBe(text)
})

test.each([
  [Object.assign(new Error('said'), { code: 'EEXIST' }), 'EEXIST'],
  [Object.assign(new Error('said'), { code: 'ERR_SQLITE_ERROR' }), 'said'],
  [Object.assign(new Error('said'), { code: 7 }), 'said'],
  [new Error('said'), 'said'],
  ['text', 'text'],
])('an error of a file is named by its code, else by what it says: %o', (error, text) => {
  expect(codeOrMessage(error)).toBe(text)
})

test('a copy is as of one moment while a console writes, and is readable only by its owner', async () => {
  const { file, console } = filled()
  const copy = at('copy.db')
  const steps: (readonly [number, number])[] = []
  const counted = new Set<string>()
  await copyPages(file, copy, {
    show: (done, total, what) => {
      steps.push([done, total])
      counted.add(what)
      console.exec(
        `update t set text = 'later' where n % 7 = ${steps.length % 7}; insert into t (text) values ('later')`,
      )
    },
  })
  const copied = new DatabaseSync(copy, { readOnly: true })
  expect(copied.prepare(`select count(*) as rows, sum(text = 'later') as later from t`).get()).toEqual({
    rows: 2_000,
    later: 0,
  })
  copied.close()
  console.close()
  expect(statSync(copy).mode & 0o777).toBe(0o600)
  expect(steps.length).toBeGreaterThan(2)
  const total = steps[0]?.[1] ?? 0
  expect(total).toBeGreaterThan(2_000)
  expect(steps.map(([done]) => done)).toEqual(steps.map(([done]) => done).toSorted((a, b) => a - b))
  expect(steps.every(([done, all]) => done > 0 && done <= total && all === total)).toBe(true)
  expect([...counted]).toEqual(['pages copied'])
})

test('a file that is not there is neither copied nor examined, and none is made in its place', async () => {
  const gone = at('gone.db')
  await expect(copyPages(gone, at('copy.db'), { show: () => {} })).rejects.toThrow('unable to open')
  expect(() => checkIntegrity(gone, 'the backup', true)).toThrow('unable to open')
  expect(existsSync(gone)).toBe(false)
})

test.skipIf(process.platform !== 'linux')('no file stays open behind what was done with it', async () => {
  const { file, console } = filled()
  console.close()
  const copy = at('copy.db')
  await copyPages(file, copy, { show: () => {} })
  makeSingleFile(copy)
  checkIntegrity(copy)
  await requireSqliteFile(copy)
  const torn = written('torn.db', readFileSync(file).fill(0xff, 40_960, 4_096_000))
  expect(() => checkIntegrity(torn)).toThrow('is damaged')
  const release = lockSqliteFile(`sqlite:${file}`)
  expect([isLockedSqliteFile(file), isLockedSqliteFile(file)]).toEqual([true, true])
  release()
  expect([file, copy, torn, `${file}-lock`].map(openings)).toEqual([0, 0, 0, 0])
})

test('what is in the write-ahead log is moved into the file, which is complete in itself', async () => {
  const { file: from, console } = filled()
  const file = at('postern.db')
  // As after a crash: the log is not in the file yet.
  for (const part of ['', '-wal']) copyFileSync(`${from}${part}`, `${file}${part}`)
  console.close()
  makeSingleFile(file)
  expect([existsSync(`${file}-wal`), existsSync(`${file}-shm`)]).toEqual([false, false])
  const later = new DatabaseSync(file)
  expect(later.prepare('select count(*) as rows from t').get()).toEqual({ rows: 2_000 })
  expect(later.prepare('pragma journal_mode').get()).toEqual({ journal_mode: 'delete' })
  later.close()
})

test('a damaged file is refused with what is wrong, at most five of it, and a sound one is not', () => {
  const { file, console } = filled()
  console.close()
  checkIntegrity(file)
  const torn = written('torn.db', readFileSync(file).fill(0xff, 40_960, 4_096_000))
  expect(() => checkIntegrity(torn)).toThrow(`The database ${torn} is damaged: *** in database main`)
  const unlike = at('unlike.db')
  const single = new DatabaseSync(unlike, { defensive: false } as object)
  single.exec(`create table t (a); insert into t values (null); pragma writable_schema = on;
    update sqlite_master set sql = 'create table t (a not null)'`)
  single.close()
  expect(() => checkIntegrity(unlike)).toThrow(
    new Refused(`The database ${unlike} is damaged: NULL value in t.a`),
  )
  const damaged = at('damaged.db')
  const database = new DatabaseSync(damaged, { defensive: false } as object)
  database.exec(`create table t (a); create index i on t (a); create table empty (a); create index e on empty (a);
    insert into t values (1), (2), (3), (4), (5), (6), (7); pragma writable_schema = on;
    update sqlite_master set rootpage = (select rootpage from sqlite_master where name = 'e') where name = 'i'`)
  database.close()
  // Five problems, of which the first two are one line of SQLite’s.
  const refusal = /^The database the backup is damaged: [^;]+(?:; [^;]+){3}$/
  for (const readOnly of [true, false]) {
    expect(() => checkIntegrity(damaged, 'the backup', readOnly)).toThrow(refusal)
  }
  expect(() => checkIntegrity(written('other.db', 'no database'.repeat(1_000)))).toThrow(
    /is damaged: file is not a database/,
  )
})

test('a place for a database is free if there is no file, or an empty one', async () => {
  expect(await isEmptyOrMissing(at('gone'))).toBe(true)
  expect(await isEmptyOrMissing(written('empty', ''))).toBe(true)
  expect(await isEmptyOrMissing(written('full', 'x'))).toBe(false)
  const folder = databaseDirectory()
  await expect(isEmptyOrMissing(folder)).rejects.toThrow(
    new Refused(`${folder} is a folder: name a file in it`),
  )
})

test('a SQLite file has one lock, under each of its names, which only its owner can open', () => {
  const folder = databaseDirectory()
  const [file, link] = [join(folder, 'postern.db'), join(folder, 'link.db')]
  expect(isLockedSqliteFile(file)).toBe(false)
  const release = lockSqliteFile(`sqlite:${file}`)
  expect(isLockedSqliteFile(file)).toBe(true)
  writeFileSync(file, '')
  symlinkSync(file, link)
  expect([isLockedSqliteFile(file), isLockedSqliteFile(link)]).toEqual([true, true])
  expect(statSync(`${file}-lock`).mode & 0o777).toBe(0o600)
  release()
  expect([isLockedSqliteFile(file), isLockedSqliteFile(link)]).toEqual([false, false])
  // What looks has let it go.
  lockSqliteFile(`sqlite:${link}`)()
  for (const other of ['sqlite::memory:', 'postgres://db', 'sqlite:', `xsqlite:${folder}/a`])
    lockSqliteFile(other)()
  expect([existsSync(`${folder}/a-lock`), existsSync(':memory:-lock')]).toEqual([false, false])
})

test('a SQLite file that is in use, or whose lock cannot be opened, is refused with what to do', () => {
  const file = at('postern.db')
  const release = lockSqliteFile(`sqlite:${file}`)
  const text =
    `database.url: another console uses the SQLite file ${file}. Stop it first, ` +
    'or use PostgreSQL (database.url: postgres://…), which several consoles can share'
  const startedMs = performance.now()
  expect(() => lockSqliteFile(`sqlite:${file}`)).toThrow(new StartError(text))
  // A console that is being replaced may take this long to close.
  expect(performance.now() - startedMs).toBeGreaterThan(1_900)
  release()
  const gone = join(databaseDirectory(), 'gone', 'postern.db')
  expect(() => lockSqliteFile(`sqlite:${gone}`, 'TO')).toThrow(
    `TO: cannot open the lock of the SQLite file ${gone}: ENOENT`,
  )
  writeFileSync(`${file}-lock`, 'no database'.repeat(1_000))
  expect(() => lockSqliteFile(`sqlite:${file}`)).toThrow('file is not a database')
  expect(() => isLockedSqliteFile(file)).toThrow('file is not a database')
})

test('reads and announcing go on beside a change that is not committed, and all of the file is closed', async () => {
  const file = at('postern.db')
  const database = await openDatabase(`sqlite:${file}`)
  const count = async (connection: typeof database.reader) =>
    (await connection.selectFrom('workspace_plans').select('plan').execute()).length
  await database.writer.transaction().execute(async tx => {
    await tx.insertInto('workspace_plans').values({ workspace_id: 'ws_1', plan: 'free' }).execute()
    expect([await count(tx), await count(database.reader), await count(database.announcing)]).toEqual([
      1, 0, 0,
    ])
  })
  expect([await count(database.reader), database.hasTextIndex, database.dialect]).toEqual([1, true, 'sqlite'])
  const { rows } = await sql`select fold('ÄBc') as folded`.execute(database.reader)
  expect(rows).toEqual([{ folded: 'äbc' }])
  await database.close()
  expect(existsSync(`${file}-wal`)).toBe(false)
  // Also what was opened and never asked.
  await (await openDatabase(`sqlite:${file}`)).close()
  expect(existsSync(`${file}-wal`)).toBe(false)
})

test('a database in memory has no file', async () => {
  await (await openDatabase('sqlite::memory:')).close()
  expect(existsSync(':memory:')).toBe(false)
})

test('a file whose migration fails is closed, and one that cannot be opened is named with the cause', async () => {
  const file = at('postern.db')
  const broken = { ...MIGRATIONS, '9001': () => Promise.reject(new Error('broken')) }
  await expect(openMigrated(`sqlite:${file}`, broken)).rejects.toThrow('could not be migrated')
  expect(existsSync(`${file}-wal`)).toBe(false)
  const other = written('other.db', 'no database'.repeat(1_000))
  await expect(openMigrated(`sqlite:${other}`, MIGRATIONS)).rejects.toEqual(
    new SettingError(`database.url: cannot open the SQLite file ${other}: file is not a database`),
  )
})

test('a path that no wait cures is a mistake in the setting, but not in an argument', async () => {
  const folder = databaseDirectory()
  const file = at('file')
  writeFileSync(file, '')
  await expect(openMigrated(`sqlite:${folder}`, MIGRATIONS)).rejects.toBeInstanceOf(SettingError)
  for (const path of [join(folder, 'gone', 'a.db'), join(file, 'a.db')]) {
    expect(() => lockSqliteFile(`sqlite:${path}`)).toThrow(SettingError)
    expect(() => lockSqliteFile(`sqlite:${path}`, 'TO')).not.toThrow(SettingError)
  }
})
