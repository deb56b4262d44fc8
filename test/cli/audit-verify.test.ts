import { hash } from 'node:crypto'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { expect, test } from 'vitest'
import { startConsole } from '../support/console.ts'
import { runPosternHere } from '../support/postern-here.ts'
import { SIGNING_SECRET } from '../support/signing-secret.ts'
import { databaseDirectory } from '../support/temporary-directory.ts'

const SECRETS = { POSTERN_KEYS_SIGNING_SECRETS: SIGNING_SECRET.toString('base64') }

async function run(...argv: string[]) {
  return runWith(SECRETS, ...argv)
}

async function runWith(env: Record<string, string>, ...argv: string[]) {
  const { code, stdout, stderr } = await runPosternHere(['audit', 'verify', ...argv], env)
  return { code, output: stdout, errors: stderr }
}

const KEYS = '/admin/v1/workspaces/ws_1/keys'
const headIn = (output: string) => /^Head: ([0-9a-f]{64})$/m.exec(output)?.[1] ?? ''

test('the audit chain is checked beside a running console, and against a head kept elsewhere', async () => {
  const file = join(databaseDirectory(), 'a.db')
  const { send } = await startConsole({ databaseUrl: `sqlite:${file}` })
  const issue = () => send('POST', KEYS, { name: 'importer', scopes: ['files:read'] })
  for (let times = 0; times < 3; times++) await issue()
  const first = await run('--database-url', `sqlite:${file}`)
  expect(first).toMatchObject({ code: 0, errors: '' })
  expect(first.output).toMatch(/^Entries in the chain: 3, the first of 20/)
  expect(first.output).toContain('The audit chain is intact')
  expect(first.output).toContain('keep this head elsewhere')

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
  const file = join(databaseDirectory(), 'a.db')
  const missing = await run('--database-url', `sqlite:${file}`)
  expect([missing.code, missing.errors]).toEqual([
    69,
    expect.stringMatching(/no SQLite file to read .* Name the settings of the console with --config/),
  ])
  new DatabaseSync(file).close()
  const empty = await run('--database-url', `sqlite:${file}`)
  expect([empty.code, empty.errors]).toEqual([69, expect.stringContaining('has no audit chain yet')])
  const away = await run('--database-url', 'postgres://user:hunter2@127.0.0.1:1/postern')
  expect([away.code, away.errors]).toEqual([69, expect.stringContaining('cannot reach PostgreSQL')])
  expect(away.errors).not.toContain('hunter2')
})

test('an entry that the console did not write is named, and neither shown nor exported', async () => {
  const file = join(databaseDirectory(), 'a.db')
  const { send } = await startConsole({ databaseUrl: `sqlite:${file}` })
  for (let times = 0; times < 3; times++)
    await send('POST', KEYS, { name: 'importer', scopes: ['files:read'] })
  const other = new DatabaseSync(file)
  const [first] = other.prepare('select * from audit order by sequence').all()
  const id = 'audit_00000000000000000000000001'
  const forged = { ...first, id, sequence: null, hash: null, at_ms: 1, actor: 'person:framed' }
  const columns = Object.keys(forged)
  const insert = `insert into audit (${columns.join()}) values (${columns.map(() => '?').join()})`
  other.prepare(insert).run(...Object.values(forged))
  other.close()
  const report = await run('--database-url', `sqlite:${file}`)
  expect([report.code, report.output]).toEqual([
    1,
    expect.stringContaining(`inserted: entry ${id}, key.issued`),
  ])
  for (const path of [
    '/admin/v1/workspaces/ws_1/audit',
    '/admin/v1/audit?actor=person:framed',
    '/admin/v1/audit/export',
  ]) {
    const { status, text } = await send('GET', path)
    expect([path, status, text.includes('framed')]).toEqual([path, 200, false])
  }
})

test('without the secret that signed the entries, they are not called intact', async () => {
  const file = join(databaseDirectory(), 'a.db')
  const { send } = await startConsole({ databaseUrl: `sqlite:${file}` })
  await send('POST', KEYS, { name: 'importer', scopes: ['files:read'] })
  const others = { POSTERN_KEYS_SIGNING_SECRETS: hash('sha256', 'another secret', 'base64') }
  for (const env of [{}, others]) {
    const { code, output } = await runWith(env, '--database-url', `sqlite:${file}`)
    expect(code).toBe(78)
    expect(output).toMatch(
      /^not verified: 1 entry, .* signing secret [0-9a-f]{16} is not given \(keys\.signingSecrets\)$/m,
    )
    expect(output).toContain('cannot be verified: of 1 entry')
    expect(output).not.toContain('intact')
  }
})

test.each([['--head', 'abc']])('%s %s is a wrong command line', async (...argv) => {
  expect((await run(...argv)).code).toBe(64)
})
