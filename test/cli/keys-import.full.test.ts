import { execFileSync, spawn } from 'node:child_process'
import { appendFileSync, createWriteStream, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { readEntries } from '../../src/cli/commands/keys/read-entries.ts'
import { digestKey } from '../../src/domain/key/secret.ts'
import type { Host } from '../../src/run/host.ts'
import { runPosternHere } from '../support/postern-here.ts'
import { runPostern } from '../support/postern-process.ts'
import { refuses, ScriptedAdmin, says } from '../support/scripted-admin.ts'
import { temporaryDirectory } from '../support/temporary-directory.ts'
import { startWorld, type World } from '../support/world.ts'

let world: World
beforeAll(async () => {
  world = await startWorld({ POSTERN_KEYS_FORMAT: 'any' })
})
afterAll(() => world.stop())

const EXPIRES_AT = new Date(Date.now() + 86_400_000).toISOString()
const entryOf = (secret: string, more: object = {}) => ({
  digest: digestKey(secret),
  hint: `…${secret.slice(-4)}`,
  workspaceId: 'ws_import',
  name: secret,
  scopes: ['files:read'],
  expiresAt: EXPIRES_AT,
  ...more,
})
const fileOfBytes = (bytes: string | Uint8Array) => {
  const file = join(temporaryDirectory(), 'keys.ndjson')
  writeFileSync(file, bytes)
  return file
}
const fileOf = (lines: readonly string[]) => fileOfBytes(lines.join('\n'))
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
    stdout: '{"imported":0,"exists":1001,"invalid":0,"errors":[]}',
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
  const json = await importOf([good, '', wrong, other], '--json')
  const error = expect.stringMatching(/^scopes must be a list of at least one of /)
  expect([json.code, JSON.parse(json.stdout), JSON.parse(json.stderr)]).toEqual([
    65,
    { imported: 0, exists: 2, invalid: 1, errors: [{ line: 3, error }] },
    { error: '1 key not imported', code: 'rejected' },
  ])
})

test('with --json an import without a line, or that breaks off, prints JSON alone', async () => {
  const none = await importOf(['', ''], '--json')
  expect(none).toMatchObject({ stdout: '{"imported":0,"exists":0,"invalid":0,"errors":[]}', stderr: '' })
  const [good = ''] = linesOf(1, 'broken-off')
  const wrong = JSON.stringify(entryOf('broken-off', { scopes: ['files:write'] }))
  const lines = [wrong, ...Array.from({ length: 1000 }, () => good), 'no object']
  const { code, stdout, stderr } = await importOf(lines, '--json')
  expect([code, stdout, JSON.parse(stderr)]).toMatchObject([
    64,
    '',
    { error: expect.stringContaining('Line 1002 must be one JSON object'), errors: [{ line: 1 }] },
  ])
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

describe('the input is understood as it is', () => {
  const bytesOf = (...parts: (string | Uint8Array)[]) => Buffer.concat(parts.map(part => Buffer.from(part)))
  const importFile = (file: string, input = '') =>
    runPosternHere(['keys', 'import', file], world.cliEnv, input)

  test('with a byte order mark, CRLF and no newline at the end', async () => {
    const [first = '', second = ''] = linesOf(2, 'marked')
    const exit = await importFile(fileOfBytes(`\ufeff${first}\r\n\r\n${second}`))
    expect(exit).toMatchObject({ code: 0, stdout: 'Imported 2 keys; 0 existed already; 0 invalid.' })
  })

  test('from standard input, as -', async () => {
    const exit = await importFile('-', linesOf(3, 'piped').join('\n'))
    expect(exit).toMatchObject({ code: 0, stdout: 'Imported 3 keys; 0 existed already; 0 invalid.' })
  })

  test('from a named pipe', async () => {
    const pipe = join(temporaryDirectory(), 'pipe')
    execFileSync('mkfifo', [pipe])
    const running = importFile(pipe)
    createWriteStream(pipe).end(linesOf(2, 'fifo').join('\n'))
    expect(await running).toMatchObject({
      code: 0,
      stdout: 'Imported 2 keys; 0 existed already; 0 invalid.',
    })
  })

  test('an empty one holds no key, which is said', async () => {
    const exit = await importFile(fileOfBytes(''))
    expect(exit).toMatchObject({
      code: 0,
      stdout: 'Imported 0 keys; 0 existed already; 0 invalid.',
      stderr: 'There is no line with a key\n',
    })
  })

  test('a folder is named as one', async () => {
    const exit = await importFile(temporaryDirectory())
    expect(exit).toMatchObject({
      code: 64,
      stderr: expect.stringMatching(/ is a folder: name a file .*nothing was imported/),
    })
  })

  test.each([
    ['Latin-1', bytesOf('{"name":"caf', Uint8Array.of(0xe9), '"}\n')],
    ['UTF-16', Buffer.from('\ufeff{}\n', 'utf16le')],
  ])('text that is not UTF-8 is refused with its line: %s', async (_, bytes) => {
    const [good = ''] = linesOf(1, 'latin')
    const exit = await importFile(fileOfBytes(bytesOf(`${good}\n`, bytes)))
    expect(exit).toMatchObject({ code: 64, stdout: '' })
    expect(exit.stderr).toMatch(
      /^Line 2 is not UTF-8: save the file as UTF-8\. Before that, nothing was imported\. /,
    )
  })

  test('a line without end is refused, however long it is, and little of it is read', async () => {
    const writer = spawn('yes', ['x'.repeat(1000)], { stdio: ['ignore', 'pipe', 'ignore'] })
    const tr = spawn('tr', ['-d', '\\n'], { stdio: [writer.stdout, 'pipe', 'ignore'] })
    const pipe = join(temporaryDirectory(), 'pipe')
    execFileSync('mkfifo', [pipe])
    const running = importFile(pipe)
    const sink = createWriteStream(pipe)
    sink.on('error', () => tr.kill())
    tr.stdout.pipe(sink)
    expect(await running).toMatchObject({
      code: 64,
      stderr: expect.stringContaining('Line 1 must be one JSON object'),
    })
    writer.kill()
    tr.kill()
  })

  test('a file that grows while it is read ends where it ended before', async () => {
    const file = fileOfBytes('{"n":1}\n')
    const seen: unknown[] = []
    // Unlike `-`, a named file uses nothing of the host.
    for await (const { entry } of readEntries(file, {} as Host)) {
      seen.push(entry)
      appendFileSync(file, '{"n":2}\n')
    }
    expect(seen).toEqual([{ n: 1 }])
  })
})

describe('a failed import says what was imported', () => {
  test('before a wrong line', async () => {
    const lines = linesOf(1000, 'partly')
    const exit = await importOf([
      ...lines.slice(0, 3),
      '',
      ...lines.slice(3),
      ...linesOf(2, 'rest'),
      'no JSON',
    ])
    expect(exit).toMatchObject({ code: 64, stdout: '' })
    expect(exit.stderr).toContain(
      'Line 1004 must be one JSON object of at most 64000 bytes. ' +
        'Before that, of lines 1 to 1001, 1000 keys imported; 0 existed already; 0 invalid. ' +
        'Then repeat the import: keys that exist stay as they are\n',
    )
    const again = await importOf([...lines, ...linesOf(2, 'rest')])
    expect(again).toMatchObject({ code: 0, stdout: 'Imported 2 keys; 1000 existed already; 0 invalid.' })
  })

  test('and which lines may have been, if the console did not answer', async () => {
    const admin = await ScriptedAdmin.start()
    onTestFinished(() => admin.stop())
    const results = Array.from({ length: 1000 }, () => ({ status: 'imported' }))
    admin.answers(says(200, { results }), refuses(503, 'database_unavailable', 'The database is unavailable'))
    const file = fileOf(linesOf(1500, 'unknown'))
    const exit = await runPosternHere(['keys', 'import', file], admin.env)
    expect(exit.code).toBe(69)
    expect(exit.stderr).toContain('of lines 1 to 1000, 1000 keys imported; 0 existed already; 0 invalid')
    expect(exit.stderr).toContain('Lines 1001 to 1500 may have been imported')
  })
})
