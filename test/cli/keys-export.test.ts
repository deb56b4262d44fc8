import { existsSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { digestKey } from '../../src/domain/key/secret.ts'
import { startConsoleWithCommands } from '../support/console-commands.ts'
import { runPosternHere } from '../support/postern-here.ts'
import { temporaryDirectory } from '../support/temporary-directory.ts'
import { until } from '../support/until.ts'

const newFile = () => join(temporaryDirectory(), 'keys.ndjson')

async function consoleWithKeys(count: number) {
  const console = await startConsoleWithCommands()
  const secrets: string[] = []
  for (let issued = 0; issued < count; issued++) {
    const body = { name: `key ${issued}`, scopes: ['files:read'] }
    const { secret } = (await console.send('POST', '/admin/v1/workspaces/ws_1/keys', body)).body
    secrets.push(String(secret))
  }
  return { ...console, secrets }
}

/** A console whose export ends as the test wants it. */
async function exportThat(ends: (response: ServerResponse) => void) {
  const server = createServer((_request, response) => {
    response.writeHead(200, { 'content-type': 'application/x-ndjson' })
    response.write('{"digest":"1"}\n{"digest":"2"}\n', () => ends(response))
  }).listen(0, '127.0.0.1')
  await new Promise(resolve => server.once('listening', resolve))
  onTestFinished(() => void server.close())
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const environment = { POSTERN_CONSOLE_URL: url, POSTERN_ADMIN_TOKEN: 'a-token-of-the-tests' }
  return (...args: string[]) => runPosternHere(['keys', 'export', ...args], environment)
}

test('an export holds the digest of every key and no secret, and only its owner can read it', async () => {
  const { postern, secrets } = await consoleWithKeys(3)
  const file = newFile()
  expect(await postern('keys', 'export', file)).toMatchObject({
    code: 0,
    stdout: '',
    stderr: `Exported 3 keys to ${file}\n`,
  })
  const text = readFileSync(file, 'utf8')
  const lines = text.split('\n').slice(0, -1)
  expect(lines.map(line => JSON.parse(line).digest)).toEqual(secrets.map(digestKey))
  for (const secret of secrets) expect(text).not.toContain(secret)
  expect(statSync(file).mode & 0o777).toBe(0o600)
  expect(existsSync(`${file}.part`)).toBe(false)
})

test('an export can be imported as it is, also from standard output', async () => {
  const { postern } = await consoleWithKeys(2)
  const file = newFile()
  const { code, stdout, stderr } = await postern('keys', 'export', '-')
  expect({ code, stderr }).toEqual({ code: 0, stderr: 'Exported 2 keys\n' })
  writeFileSync(file, `${stdout}\n`)
  const other = await startConsoleWithCommands()
  expect(await other.postern('keys', 'import', file, '--json')).toMatchObject({
    code: 0,
    stdout: '{"imported":2,"exists":0,"invalid":0,"errors":[]}',
  })
})

test('a file is replaced only with --force, and then only its owner can read it', async () => {
  const { postern } = await consoleWithKeys(1)
  const file = newFile()
  writeFileSync(file, 'precious', { mode: 0o644 })
  expect(await postern('keys', 'export', file)).toMatchObject({
    code: 64,
    stderr: expect.stringContaining('exists already: name another one, or add --force'),
  })
  expect(readFileSync(file, 'utf8')).toBe('precious')
  expect(await postern('keys', 'export', file, '--force')).toMatchObject({ code: 0 })
  expect(readFileSync(file, 'utf8')).toContain('"digest"')
  expect(statSync(file).mode & 0o777).toBe(0o600)
})

test('what is there under the name of the unfinished file is replaced, and a link is not followed', async () => {
  const { postern } = await consoleWithKeys(1)
  const [file, other] = [newFile(), newFile()]
  writeFileSync(other, 'precious')
  symlinkSync(other, `${file}.part`)
  expect(await postern('keys', 'export', file)).toMatchObject({ code: 0 })
  expect(readFileSync(other, 'utf8')).toBe('precious')
  expect(readFileSync(file, 'utf8')).toContain('"digest"')
})

test.each<[string, (response: ServerResponse) => void]>([
  ['is reset', response => response.destroy()],
  ['ends within a line', response => response.end('{"digest":"3"')],
])('an export whose connection %s leaves no file, and says so: exit code 69', async (_, ends) => {
  const run = await exportThat(ends)
  const file = newFile()
  expect(await run(file)).toMatchObject({
    code: 69,
    stderr: 'The export broke off after 2 keys: it is not whole. Repeat it\n',
  })
  expect([existsSync(file), existsSync(`${file}.part`)]).toEqual([false, false])
  expect(await run('-')).toMatchObject({ code: 69, stderr: expect.stringContaining('is not whole') })
})

test('a failed replacement keeps the former export', async () => {
  const run = await exportThat(response => response.destroy())
  const file = newFile()
  writeFileSync(file, 'precious')
  expect(await run(file, '--force')).toMatchObject({ code: 69 })
  expect(readFileSync(file, 'utf8')).toBe('precious')
})

test('of two exports to one file at once, the later one is saved whole, and the other says that it is not saved', async () => {
  const responses: ServerResponse[] = []
  const run = await exportThat(response => void responses.push(response))
  const file = newFile()
  const begun = async () => {
    const [exit, count] = [run(file), responses.length + 1]
    await until(`export ${count} has begun`, () => responses.length === count)
    return { exit, end: (rest: string) => responses[count - 1]?.end(rest) }
  }
  const [first, second] = [await begun(), await begun()]
  first.end('')
  expect(await first.exit).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('this one is not saved'),
  })
  expect(existsSync(file)).toBe(false)
  second.end('{"digest":"3"}\n')
  expect(await second.exit).toMatchObject({ code: 0 })
  expect(readFileSync(file, 'utf8')).toBe('{"digest":"1"}\n{"digest":"2"}\n{"digest":"3"}\n')
})

test('a file that cannot be written, and a token without the right to export, are named', async () => {
  const { postern, send, withToken } = await consoleWithKeys(1)
  expect(await postern('keys', 'export', '/nowhere/keys.ndjson')).toMatchObject({
    code: 1,
    stderr: 'The file /nowhere/keys.ndjson cannot be written (ENOENT)\n',
  })
  const body = { name: 'reader', permissions: ['keys:read'], expiresInDays: 1 }
  const { secret } = (await send('POST', '/admin/v1/tokens', body)).body
  const file = newFile()
  expect(await withToken(String(secret))('keys', 'export', file)).toMatchObject({ code: 77 })
  expect(existsSync(file)).toBe(false)
})
