import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { digestOf } from '../../src/domain/key/secret.ts'
import { runPosternHere } from '../support/postern-here.ts'
import { runPostern } from '../support/postern-process.ts'
import { temporaryDirectory } from '../support/temporary-directory.ts'
import { startWorld, type World } from '../support/world.ts'

let world: World
beforeAll(async () => {
  world = await startWorld({ POSTERN_KEYS_FORMAT: 'any' })
})
afterAll(() => world.stop())

const EXPIRES_AT = new Date(Date.now() + 86_400_000).toISOString()
const entryOf = (secret: string, more: object = {}) => ({
  digest: digestOf(secret),
  hint: `…${secret.slice(-4)}`,
  workspaceId: 'ws_import',
  name: secret,
  scopes: ['files:read'],
  expiresAt: EXPIRES_AT,
  ...more,
})
const fileOf = (lines: readonly string[]) => {
  const file = join(temporaryDirectory(), 'keys.ndjson')
  writeFileSync(file, lines.join('\n'))
  return file
}
const importOf = (lines: readonly string[], ...options: string[]) =>
  runPosternHere(['keys', 'import', fileOf(lines), ...options], world.cliEnv)
const linesOf = (count: number, prefix: string) =>
  Array.from({ length: count }, (_, index) =>
    JSON.stringify(entryOf(`${prefix}-${index}`, { name: 'imported' })),
  )

test('a file of more keys than one call takes is imported whole, and again without effect', async () => {
  const lines = linesOf(1001, 'old')
  const first = await runPostern(['keys', 'import', fileOf(lines)], world.cliEnv)
  expect(first).toMatchObject({
    code: 0,
    stdout: 'Imported 1001 keys; 0 existed already; 0 invalid.',
  })
  expect(first.stderr).toContain('1000 keys read\n1001 keys read')
  expect(await importOf(lines, '--json')).toMatchObject({
    code: 0,
    stdout: '{"imported":0,"exists":1001,"invalid":0}',
    stderr: '',
  })
})

test('an imported key works at a gateway that accepts keys of other systems, beside an issued one', async () => {
  const secret = 'sk_of_the_other_system'
  await importOf([JSON.stringify(entryOf(secret, { name: 'imported' }))])
  const options = ['--workspace', 'ws_import', '--scope', 'files:read']
  const issued = (await runPosternHere(['keys', 'issue', ...options], world.cliEnv)).stdout
  const workspaceOf = async (key: string) => {
    const headers = { authorization: `Bearer ${key}` }
    const response = await fetch(`${world.gateway.urls.gateway}/api/v1/auth`, { headers })
    return [response.status, JSON.parse(await response.text()).workspaceId]
  }
  expect(await workspaceOf(secret)).toEqual([200, 'ws_import'])
  expect(await workspaceOf(issued)).toEqual([200, 'ws_import'])
  expect((await workspaceOf(`${secret}x`))[0]).toBe(401)
  expect((await workspaceOf(`${issued.slice(0, -1)}${issued.endsWith('A') ? 'B' : 'A'}`))[0]).toBe(401)
})

test('an imported key that begins with the prefix of this installation, but is none of its keys, is rejected', async () => {
  const secret = 'wsk_0123456789abcdef'
  await importOf([JSON.stringify(entryOf(secret, { name: 'imported' }))])
  const headers = { authorization: `Bearer ${secret}` }
  const response = await fetch(`${world.gateway.urls.gateway}/api/v1/auth`, { headers })
  expect(response.status).toBe(401)
})

test('invalid lines are named with their number and field, and the others imported: exit code 65', async () => {
  const [good = '', other = ''] = linesOf(2, 'mixed')
  const wrong = JSON.stringify(entryOf('mixed-wrong', { name: 'imported', scopes: ['files:write'] }))
  const exit = await importOf([good, '', wrong, other])
  expect(exit).toMatchObject({
    code: 65,
    stdout: 'Imported 2 keys; 0 existed already; 1 invalid.',
  })
  expect(exit.stderr).toMatch(/^Line 3: scopes must be a list of at least one of /m)
})

test('one key is counted as one', async () => {
  expect(await importOf(linesOf(1, 'single'))).toMatchObject({
    code: 0,
    stdout: 'Imported 1 key; 0 existed already; 0 invalid.',
    stderr: expect.stringContaining('1 key read'),
  })
})

test('a file that is missing, or has a line that is no JSON object, is a wrong command line', async () => {
  const missing = await runPosternHere(['keys', 'import', '/nowhere/keys.ndjson'], world.cliEnv)
  expect(missing).toMatchObject({
    code: 64,
    stderr: expect.stringContaining('/nowhere/keys.ndjson cannot be read (ENOENT)'),
  })
  const exit = await importOf(['sk_a_key_in_plain_text'])
  expect(exit).toMatchObject({ code: 64, stderr: expect.stringContaining('Line 1 must be one JSON object') })
  expect(exit.stderr).not.toContain('sk_a_key')
})
