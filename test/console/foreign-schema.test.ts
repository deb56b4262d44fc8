import { copyFileSync, existsSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { describe, expect, test } from 'vitest'
import { startConsole } from '../support/console.ts'
import { metricValue } from '../support/metric-value.ts'
import { openDatabase } from '../support/open-database.ts'
import { runPosternHere } from '../support/postern-here.ts'
import { databaseDirectory } from '../support/temporary-directory.ts'

/** What makes a database another one than the migrations make, and how the refusal names it. */
const CHANGES: readonly (readonly [statement: string, named: string])[] = [
  [
    `create trigger later after update of revoked_at_ms on keys begin
      update keys set revoked_at_ms = null where id = new.id; end`,
    'added trigger later on keys',
  ],
  [
    'create trigger audit_of_keys before insert on audit begin select raise(ignore); end',
    'added trigger audit_of_keys',
  ],
  ['drop trigger audit_refuses_update', 'missing trigger audit_refuses_update on audit'],
  [
    `drop trigger audit_refuses_delete;
      create trigger audit_refuses_delete before delete on audit begin select 1; end`,
    'changed trigger audit_refuses_delete on audit',
  ],
  ['create view gateways_now as select * from gateways', 'added view gateways_now'],
  ['create table notes (text)', 'added table notes'],
  ['create virtual table notes using fts5 (text)', 'added table notes'],
  ['create index keys_by_actor on keys (created_by)', 'added index keys_by_actor on keys'],
  [
    'create unique index one_key on keys (upper(workspace_id)) where version > 1',
    'added index one_key on keys',
  ],
  ['drop index keys_by_hint', 'missing index keys_by_hint on keys'],
  ["alter table keys add column shown text as (name || 'x')", 'changed table keys'],
  ['alter table sessions rename column person to human', 'changed table sessions'],
  ['drop table refusal_gaps; create view refusal_gaps as select 1', 'missing table refusal_gaps'],
]

/** Edits that SQLite refuses, made in the table of the schema itself. */
const REWRITTEN: readonly (readonly [statement: string, named: string])[] = [
  [
    "update sqlite_master set sql = replace(sql, 'version >= 1', 'version >= 0') where name = 'keys'",
    'changed table keys',
  ],
  [
    `insert into sqlite_master values ('table', 'sqlite_schema', 'sqlite_schema',
      (select rootpage from sqlite_master where name = 'webhook_deliveries'), 'CREATE TABLE sqlite_schema (type, name, tbl_name, sql)')`,
    'already exists|damaged',
  ],
  ["delete from sqlite_master where type = 'trigger'", 'missing trigger'],
  ["delete from sqlite_master where name = 'keys_by_hint'", 'missing index keys_by_hint|damaged'],
]

async function migrated(): Promise<string> {
  const file = join(databaseDirectory(), 'postern.db')
  await (await openDatabase(`sqlite:${file}`)).close()
  return file
}

function change(file: string, statement: string): void {
  const database = new DatabaseSync(file, { defensive: false } as object)
  database.exec('pragma writable_schema = on')
  database.exec(statement)
  database.close()
}

describe('a file whose schema is not as the migrations make it', () => {
  test.each([...CHANGES, ...REWRITTEN])('is neither restored nor copied: %s', async (statement, named) => {
    const file = await migrated()
    change(file, statement)
    const target = join(databaseDirectory(), 'target.db')
    const env = { POSTERN_DATABASE_URL: `sqlite:${target}` }
    for (const args of [
      ['restore', file, '--without-redis'],
      ['copy', file, target],
    ]) {
      const { code, stderr } = await runPosternHere(['database', ...args], env)
      expect({ code, stderr }).toEqual({ code: 65, stderr: expect.stringMatching(named) })
      expect(existsSync(target)).toBe(false)
    }
  })

  test('is refused also if it is of another program, or has no tables', async () => {
    const file = join(databaseDirectory(), 'other.db')
    change(file, 'create table t (x)')
    const empty = join(databaseDirectory(), 'empty.db')
    change(empty, 'pragma user_version = 7')
    for (const from of [file, empty]) {
      const target = join(databaseDirectory(), 'target.db')
      const { code, stderr } = await runPosternHere(['database', 'restore', from, '--without-redis'], {
        POSTERN_DATABASE_URL: `sqlite:${target}`,
      })
      expect({ code, stderr }).toEqual({
        code: 65,
        stderr: expect.stringContaining('no database of Postern'),
      })
      expect(existsSync(target)).toBe(false)
    }
  })

  test('is saved by a backup, which says that a restore will refuse it', async () => {
    const file = await migrated()
    change(file, 'create index keys_by_actor on keys (created_by)')
    const backup = join(databaseDirectory(), 'backup.db')
    const { code, stderr } = await runPosternHere(['database', 'backup', backup], {
      POSTERN_DATABASE_URL: `sqlite:${file}`,
    })
    expect({ code, stderr }).toEqual({
      code: 0,
      stderr: expect.stringMatching(/added index keys_by_actor on keys\. A restore refuses/),
    })
  })

  test('starts a console, which names the difference in its log and in a metric', async () => {
    const file = await migrated()
    change(file, 'create index keys_by_actor on keys (created_by); drop index keys_by_hint')
    const { log, found } = await startWatched(file)
    expect(log).toContain('added index keys_by_actor on keys, missing index keys_by_hint on keys')
    expect([await found('added'), await found('missing'), await found('changed')]).toEqual([1, 1, 0])
  })
})

test('a database with statistics, or one that was vacuumed, is as the migrations make it', async () => {
  const file = await migrated()
  change(file, 'analyze; vacuum')
  const { log, found, stop } = await startWatched(file)
  expect(log).not.toContain('schema')
  expect(await found('added')).toBe(0)
  await stop()
  const target = join(databaseDirectory(), 'target.db')
  copyFileSync(file, target)
  const { code } = await runPosternHere(['database', 'restore', target, '--without-redis', '--replace'], {
    POSTERN_DATABASE_URL: `sqlite:${file}`,
  })
  expect(code).toBe(0)
})

async function startWatched(file: string) {
  const { log, metrics, stop } = await startConsole({ databaseUrl: `sqlite:${file}` })
  const found = (kind: string) => metricValue(metrics.schemaDifferences, { kind })
  return { log: JSON.stringify(log), found, stop }
}
