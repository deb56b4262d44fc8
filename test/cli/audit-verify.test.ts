import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { expect, test } from 'vitest'
import { startConsole } from '../support/console.ts'
import { runPosternHere } from '../support/postern-here.ts'
import { temporaryDirectory } from '../support/temporary-directory.ts'

async function run(...argv: string[]) {
  const { code, stdout, stderr } = await runPosternHere(['audit', 'verify', ...argv], {})
  return { code, output: stdout, errors: stderr }
}

const KEYS = '/admin/v1/workspaces/ws_1/keys'
const headIn = (output: string) => /^Head: ([0-9a-f]{64})$/m.exec(output)?.[1] ?? ''

test('the audit chain is checked beside a running console, and against a head kept elsewhere', async () => {
  const file = join(temporaryDirectory(), 'a.db')
  const { send } = await startConsole({ databaseUrl: `sqlite:${file}` })
  const issue = () => send('POST', KEYS, { name: 'importer', scopes: ['files:read'] })
  for (let times = 0; times < 3; times++) await issue()
  const first = await run('--database-url', `sqlite:${file}`)
  expect(first).toMatchObject({ code: 0, errors: '' })
  expect(first.output).toMatch(/^Entries in the chain: 3, the first of 20/)
  expect(first.output).toContain('The audit chain is intact')
  expect(first.output).toContain('who can rewrite the whole table and its head can forge it')

  await issue()
  const kept = await run('--database-url', `sqlite:${file}`, '--head', headIn(first.output))
  expect([kept.code, kept.output]).toEqual([0, expect.stringContaining('in the chain, as entry 3')])
  const unknown = await run('--database-url', `sqlite:${file}`, '--head', 'a'.repeat(64))
  expect([unknown.code, unknown.output]).toEqual([
    1,
    expect.stringContaining('given head is not in the chain'),
  ])

  const other = new DatabaseSync(file)
  other.exec('DROP TRIGGER audit_refuses_update')
  other.exec("UPDATE audit SET actor = 'person:eve' WHERE sequence = 2")
  other.close()
  const changed = await run('--database-url', `sqlite:${file}`)
  expect(changed.code).toBe(1)
  expect(changed.output).toMatch(
    /^changed: entry 2, audit_\w{26}, key\.issued at 20.*does not match its hash$/m,
  )
  expect(changed.output).toContain('The audit chain is broken: 1 problem')
})

test('a database that is missing, unreachable or not migrated is no broken chain', async () => {
  const file = join(temporaryDirectory(), 'a.db')
  const missing = await run('--database-url', `sqlite:${file}`)
  expect([missing.code, missing.errors]).toEqual([69, expect.stringContaining('no SQLite file to read')])
  new DatabaseSync(file).close()
  const empty = await run('--database-url', `sqlite:${file}`)
  expect([empty.code, empty.errors]).toEqual([69, expect.stringContaining('has no audit chain yet')])
  const away = await run('--database-url', 'postgres://user:hunter2@127.0.0.1:1/postern')
  expect([away.code, away.errors]).toEqual([69, expect.stringContaining('cannot reach PostgreSQL')])
  expect(away.errors).not.toContain('hunter2')
})

test.each([
  ['--head', 'abc'],
  ['--unchained-before', 'yesterday'],
])('%s %s is a wrong command line', async (...argv) => {
  expect((await run(...argv)).code).toBe(64)
})
