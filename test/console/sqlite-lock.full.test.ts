import { statSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { backup, DatabaseSync } from 'node:sqlite'
import { expect, onTestFinished, test } from 'vitest'
import { Parts } from '../support/parts.ts'
import { LOCAL, PosternProcess, startPostern } from '../support/postern-process.ts'
import { temporaryDirectory } from '../support/temporary-directory.ts'

function setUp() {
  const directory = temporaryDirectory()
  const file = join(directory, 'postern.db')
  const { adminToken, shared } = new Parts()
  const env = {
    ...shared,
    POSTERN_DATABASE_URL: `sqlite:${file}`,
    POSTERN_ADMIN_TOKEN: adminToken,
  }
  return { directory, file, env }
}

async function start(env: Record<string, string>) {
  const { process } = await startPostern('console', env)
  onTestFinished(async () => void (await process.stop()))
  return process
}

function startSecond(env: Record<string, string>, url?: string): PosternProcess {
  const second = new PosternProcess(['console'], {
    ...{ ...LOCAL, ...env },
    ...(url && { POSTERN_DATABASE_URL: url }),
  })
  onTestFinished(async () => void (await second.stop()))
  return second
}

test('a second console on one SQLite file is refused, with what to do', async () => {
  const { directory, file, env } = setUp()
  await start(env)
  const link = join(directory, 'link.db')
  symlinkSync(file, link)
  for (const url of [undefined, `sqlite:${link}`]) {
    const { code, stderr } = await startSecond(env, url).exited
    expect(code).toBe(1)
    expect(stderr).toMatch(
      /^database\.url: another console uses the SQLite file \S+\. Stop it first, or use PostgreSQL \(.*\), which several consoles can share\n$/,
    )
  }
})

test('a console that was killed leaves no lock behind', async () => {
  const { file, env } = setUp()
  const killed = await start(env)
  await killed.stop('SIGKILL')
  const next = await start(env)
  expect((await next.stop('SIGTERM')).code).toBe(0)
  await start(env)
  expect(statSync(`${file}-lock`).mode & 0o777).toBe(0o600)
})

test('the database of a running console can be read and backed up', async () => {
  const { directory, file, env } = setUp()
  await start(env)
  const reader = new DatabaseSync(file, { readOnly: true })
  onTestFinished(() => reader.close())
  expect(reader.prepare('select count(*) as count from keys').get()).toEqual({ count: 0 })
  await backup(reader, join(directory, 'backup.db'))
  expect(statSync(join(directory, 'backup.db')).size).toBeGreaterThan(0)
})
