import { copyFileSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { freePort } from '../support/free-port.ts'
import { openDatabase } from '../support/open-database.ts'
import { runPosternHere } from '../support/postern-here.ts'
import { databaseDirectory } from '../support/temporary-directory.ts'

const PASSWORD = 'hunter2'
let folder = ''
const at = (name: string) => join(folder, name)

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'postern-exits-'))
  await (await openDatabase(`sqlite:${at('good.db')}`)).close()
  copyFileSync(at('good.db'), at('newer.db'))
  const newer = new DatabaseSync(at('newer.db'))
  newer.exec("insert into kysely_migration (name, timestamp) values ('9999_later', '2030')")
  newer.close()
  writeFileSync(at('empty.db'), '')
  writeFileSync(at('text.db'), 'a text, and no database')
  writeFileSync(at('cut.db'), 'SQLite format 3\0 and nothing more')
  mkdirSync(at('folder'))
})

afterAll(() => rmSync(folder, { recursive: true, force: true }))

/** The commands that read a file, each with the name that an error has for it. */
const READERS: readonly (readonly [name: string, run: (file: string) => Promise<unknown>, called: RegExp])[] =
  [
    [
      'backup',
      file => database(`sqlite:${file}`, 'backup', join(databaseDirectory(), 'out.db')),
      /^database\.url: |^The database|^the database/,
    ],
    [
      'restore',
      file => database(`sqlite:${join(databaseDirectory(), 'p.db')}`, 'restore', file, '--without-redis'),
      /\.db|folder/,
    ],
    [
      'copy',
      file => database('', 'copy', file, join(databaseDirectory(), 'out.db')),
      /^<from>: |^Nothing was copied/,
    ],
  ]

async function database(url: string, ...args: string[]) {
  const env: Record<string, string> = url === '' ? {} : { POSTERN_DATABASE_URL: url }
  const { code, stderr } = await runPosternHere(['database', ...args], env)
  return { code, stderr }
}

describe.each(READERS)('database %s', (_, run, called) => {
  test.each([
    ['missing.db', /ENOENT|no SQLite file/],
    ['folder', /folder/],
    ['empty.db', /is empty|no audit chain|no tables of Postern/],
    ['text.db', /is not a SQLite database/],
    ['cut.db', /damaged|malformed|not a database/],
    ['newer.db', /newer Postern: it has 9999_later/],
  ])('refuses %s with 65 and one line that names it', async (name, reason) => {
    const refused = await run(at(name))
    expect(refused).toEqual({ code: 65, stderr: expect.stringMatching(reason) })
    expect(refused).toMatchObject({ stderr: expect.stringMatching(called) })
    expect((refused as { stderr: string }).stderr.trim().split('\n')).toHaveLength(1)
  })
})

describe('the addresses of a copy', () => {
  test.each([
    ['mysql://root:hunter2@db/postern', 'must be .*mysql:…'],
    ['https://db/postern', 'must be .*https:…'],
    ['sqlite::memory:', 'must be .*sqlite:…'],
    ['sqlite:', 'must be .*sqlite:…'],
    ['postgres://u:hunter2@[bad/db', 'has a host or port that is malformed'],
  ])('that it does not know are a wrong command line, named by the argument: %s', async (address, shown) => {
    for (const [args, name] of [
      [[address, at('out.db')], '<from>'],
      [[at('good.db'), address], '<to>'],
    ] as const) {
      const { code, stderr } = await database('', 'copy', ...args)
      expect({ code, stderr }).toEqual({
        code: 64,
        stderr: expect.stringMatching(`^${name} ${shown}`),
      })
      expect(stderr).not.toContain(PASSWORD)
      expect(stderr).not.toContain('database.url')
    }
  })

  test('that do not answer are unavailable, named by the argument', async () => {
    const address = `postgres://postern:${PASSWORD}@127.0.0.1:${await freePort()}/postern`
    for (const [args, name] of [
      [[address, at('out.db')], '<from>'],
      [[at('good.db'), address], '<to>'],
    ] as const) {
      const { code, stderr } = await database('', 'copy', ...args)
      expect({ code, stderr }).toEqual({ code: 69, stderr: expect.stringMatching(`${name}: cannot reach`) })
      expect(stderr).not.toContain(PASSWORD)
    }
  })
})

test('a target that cannot be written is refused with 65 and its reason', async () => {
  const good = `sqlite:${at('good.db')}`
  const missing = at('no/such/folder/out.db')
  for (const args of [
    ['backup', missing],
    ['copy', at('good.db'), missing],
    ['copy', at('good.db'), at('folder')],
  ]) {
    expect(await database(good, ...args)).toEqual({
      code: 65,
      stderr: expect.stringMatching(/no\/such\/folder.*(ENOENT|no such file)|ENOENT|is a folder/),
    })
  }
  for (const target of [missing, at('folder')]) {
    expect(await database(`sqlite:${target}`, 'restore', at('good.db'), '--without-redis')).toEqual({
      code: 65,
      stderr: expect.stringMatching(/ENOENT|is a folder/),
    })
  }
})
