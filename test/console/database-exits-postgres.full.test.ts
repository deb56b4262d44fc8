import { join } from 'node:path'
import { sql } from 'kysely'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { openDatabase } from '../support/open-database.ts'
import { runPosternHere } from '../support/postern-here.ts'
import { PostgresServer } from '../support/postgres-server.ts'
import { temporaryDirectory } from '../support/temporary-directory.ts'
import { has, POSTGRES } from '../support/tools.ts'

describe.skipIf(!has(POSTGRES))('a database command on PostgreSQL', () => {
  let postgres: PostgresServer
  let url: string
  beforeAll(async () => {
    postgres = await PostgresServer.started()
    url = await postgres.database()
    await (await openDatabase(url)).close()
  })
  afterAll(async () => void (await postgres?.stop()))

  const out = () => join(temporaryDirectory(), 'out.db')
  const copy = async (from: string) => {
    const { code, stderr } = await runPosternHere(['database', 'copy', from, out()])
    return { code, stderr }
  }
  const backup = async (from: string) => {
    const { code, stderr } = await runPosternHere(['database', 'backup', out()], {
      POSTERN_DATABASE_URL: from,
    })
    return { code, stderr }
  }

  test('exits with 77 for a user that the server does not accept', async () => {
    const other = new URL(url)
    other.username = 'no_such_user'
    other.password = 'hunter2'
    for (const [run, name] of [
      [copy, '<from>'],
      [backup, 'database.url'],
    ] as const) {
      const { code, stderr } = await run(other.href)
      expect({ code, stderr }).toEqual({ code: 77, stderr: expect.stringMatching(`^${name}: cannot reach`) })
      expect(stderr).not.toContain('hunter2')
    }
  })

  test('exits with 65 for a database that does not exist, and for a newer schema', async () => {
    expect(await copy(postgres.urlOf('no_such_database'))).toEqual({
      code: 65,
      stderr: expect.stringMatching(/^<from>: .*no_such_database/),
    })
    const database = await openDatabase(url)
    await sql`insert into kysely_migration (name, timestamp) values ('9999_later', '2030')`.execute(
      database.writer,
    )
    await database.close()
    for (const run of [copy, backup]) {
      expect(await run(url)).toEqual({ code: 65, stderr: expect.stringContaining('newer Postern') })
    }
    const file = out()
    await (await openDatabase(`sqlite:${file}`)).close()
    expect(await runPosternHere(['database', 'copy', file, url])).toMatchObject({
      code: 65,
      stderr: expect.stringContaining('newer Postern'),
    })
  })
})
