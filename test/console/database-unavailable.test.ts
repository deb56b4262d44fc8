import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { expect, onTestFinished, test } from 'vitest'
import { startWithEveryRoute } from '../support/every-route.ts'
import { databaseDirectory } from '../support/temporary-directory.ts'
import { databaseErrors, issueKey, untilDatabaseIs } from './database-unavailable.contract.ts'

async function setUp() {
  const file = join(databaseDirectory(), 'keys.db')
  return { file, running: await startWithEveryRoute(`sqlite:${file}`) }
}

test('while another process holds the lock of the SQLite file, changes are 503, and nothing else waits for them', async () => {
  const { file, running } = await setUp()
  const other = new DatabaseSync(file)
  onTestFinished(() => other.close())
  other.exec('begin immediate')
  let isAnswered = false
  const changes = [issueKey(running), issueKey(running), running.send('POST', '/admin/v1/tokens', TOKEN)]
  const answers = Promise.all(changes).finally(() => {
    isAnswered = true
  })
  for (let reads = 0; reads < 5; reads++) {
    expect((await running.send('GET', '/admin/v1/keys')).status).toBe(200)
  }
  expect(isAnswered).toBe(false)
  for (const { status, body, headers } of await answers) {
    expect([status, body.code, headers['retry-after']]).toEqual([503, 'database_unavailable', '2'])
  }
  expect(Object.keys(await databaseErrors(running))).toEqual(['busy'])
  const logged = running.log.filter(({ msg }) => msg === 'request failed')
  expect(logged).toHaveLength(changes.length)
  for (const line of logged) {
    expect(line).toMatchObject({ cause: expect.stringMatching(/^The database is unavailable \(busy\): /) })
    expect(line).not.toHaveProperty('err')
  }
  await untilDatabaseIs('failed', running)
  other.exec('rollback')
  expect((await issueKey(running)).status).toBe(201)
  await untilDatabaseIs('ok', running)
})

test('a change waits for a lock that is held for a moment', async () => {
  const { file, running } = await setUp()
  const other = new DatabaseSync(file)
  onTestFinished(() => other.close())
  other.exec('begin immediate')
  const change = issueKey(running)
  expect((await running.send('GET', '/admin/v1/keys')).status).toBe(200)
  other.exec('rollback')
  expect((await change).status).toBe(201)
  expect(await databaseErrors(running)).toEqual({})
})

test('a damaged SQLite file is 503 to pages and calls, and counted as damaged', async () => {
  const { file, running } = await setUp()
  const noise = Buffer.alloc(1024 * 1024, 'noise')
  for (const part of ['', '-wal', '-shm']) writeFileSync(`${file}${part}`, noise)
  const issued = await issueKey(running)
  expect([issued.status, issued.body.code]).toEqual([503, 'database_unavailable'])
  const page = await running.person.browser.send('GET', '/workspaces/ws_1/keys')
  expect([page.status, page.text.includes('Database unavailable')]).toEqual([503, true])
  await untilDatabaseIs('failed', running)
  expect(Object.keys(await databaseErrors(running))).toEqual(['damaged'])
})

const TOKEN = { name: 'a', permissions: ['keys:read'], expiresInDays: 1 }
