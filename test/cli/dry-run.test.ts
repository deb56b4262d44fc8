import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeEach, describe, expect, test } from 'vitest'
import { digestKey } from '../../src/domain/key/secret.ts'
import { type ConsoleWithCommands, startConsoleWithCommands } from '../support/console-commands.ts'
import { temporaryDirectory } from '../support/temporary-directory.ts'

const UNKNOWN = 'key_00000000000000000000000000'

let site: ConsoleWithCommands
beforeEach(async () => {
  site = await startConsoleWithCommands()
})

async function issue(name: string, ...words: string[]): Promise<string> {
  const where = ['--workspace', 'ws_1', '--scope', 'files:read', '--name', name]
  return JSON.parse((await site.postern('keys', 'issue', ...where, ...words, '--json')).stdout).key.id
}

/** What a change would leave behind: entries of the audit log, and keys with their versions. */
async function traces(): Promise<string> {
  const audit = await site.send('GET', '/admin/v1/audit?limit=200')
  return [audit.text, (await site.send('GET', '/admin/v1/keys?limit=200')).text].join('\n')
}

/** Runs a command without effect. */
async function dry(...words: string[]) {
  const before = await traces()
  const exit = await site.postern(...words, '--dry-run')
  expect(await traces()).toBe(before)
  return exit
}

/** The real run ends with this code and says this on standard error, and so does the dry one before it. */
async function endsAlike(...words: string[]) {
  const tried = await dry(...words)
  const done = await site.postern(...words)
  expect([tried.code, reason(tried.stderr)]).toEqual([done.code, reason(done.stderr)])
  return tried
}
const reason = (text: string) => text.replace(/^.*refused: /s, '')

async function readingToken(): Promise<string> {
  const words = ['--name', 'reader', '--permission', 'keys:read', '--expires-in', '1d']
  return (await site.postern('tokens', 'issue', ...words)).stdout
}

describe('keys edit --dry-run', () => {
  test('shows each difference, and leaves the key, its version and the audit log as they are', async () => {
    const id = await issue('importer', '--description', 'nightly')
    const words = ['--name', 'hourly', '--clear', 'description', '--allow-cidr', '10.1.2.3/8']
    const exit = await dry('keys', 'edit', id, ...words)
    expect(exit).toMatchObject({ code: 0, stderr: '' })
    expect(exit.stdout.replace(/wsk_….{4}/, 'wsk_…')).toBe(
      [
        `Would edit ${id} (wsk_…, importer) of workspace ws_1:`,
        '  name would be "hourly", is "importer"',
        '  description would be none, is "nightly"',
        '  allowed networks would be 10.0.0.0/8, is any',
        'Nothing was changed.',
      ].join('\n'),
    )
    await site.postern('keys', 'edit', id, ...words)
    expect((await dry('keys', 'edit', id, ...words)).stdout).toMatch(
      /^Nothing to edit: .* has these values already\.\nNothing was changed\.$/,
    )
  })

  test('an expiry that would be a second earlier is a difference', async () => {
    const id = await issue('importer')
    const { expiresAt } = (await site.send('GET', `/admin/v1/keys/${id}`)).body.key
    const earlier = new Date(Date.parse(expiresAt) - 1000).toISOString()
    expect((await dry('keys', 'edit', id, '--expires-at', earlier)).stdout).toContain('  expiry would be ')
  })

  test('--json prints the key as it would be, and the differences', async () => {
    const id = await issue('importer')
    const shown = JSON.parse((await dry('keys', 'edit', id, '--name', 'hourly', '--json')).stdout)
    expect(shown).toMatchObject({
      dryRun: true,
      key: { id, name: 'hourly', version: 2 },
      differences: ['name would be "hourly", is "importer"'],
    })
  })

  test('ends as the real run: for a wrong value, an unknown key, a revoked key, and a token that may read only', async () => {
    const id = await issue('importer')
    expect(await endsAlike('keys', 'edit', id, '--expires-in', '200d')).toMatchObject({ code: 65 })
    expect(await endsAlike('keys', 'edit', id, '--plan', 'gold')).toMatchObject({ code: 65 })
    expect(await endsAlike('keys', 'edit', UNKNOWN, '--name', 'b')).toMatchObject({ code: 65 })
    const token = await readingToken()
    expect(await endsAlike('keys', 'edit', id, '--name', 'b', '--token', token)).toMatchObject({ code: 77 })
    await site.postern('keys', 'revoke', id, '--yes')
    const ended = await endsAlike('keys', 'edit', id, '--name', 'b')
    expect([ended.code, ended.stderr]).toEqual([65, expect.stringContaining('which is final')])
  })
})

describe('keys revoke-all --dry-run', () => {
  const REVOKE_ALL = ['keys', 'revoke-all', '--workspace', 'ws_1']

  test('says how many keys it would revoke and names the first ten, without asking', async () => {
    const ids = []
    for (let index = 0; index < 12; index++) ids.push(await issue(`key ${index}`))
    await site.postern('keys', 'revoke', ids[11] ?? '', '--yes')
    const exit = await dry(...REVOKE_ALL)
    const lines = exit.stdout.split('\n')
    expect([exit.code, exit.stderr, lines.length]).toEqual([0, '', 13])
    expect(lines[0]).toBe('Would revoke 11 keys of workspace ws_1:')
    expect(lines[1]).toContain(`  ${ids[10]} (`)
    expect(lines.slice(-2)).toEqual(['  and 1 more', 'Nothing was changed.'])
    expect(JSON.parse((await dry(...REVOKE_ALL, '--json')).stdout)).toEqual({
      dryRun: true,
      revoked: 11,
      keys: ids.slice(1, 11).reverse(),
    })
  })

  test('of a workspace without a key that works, says so', async () => {
    expect(await dry(...REVOKE_ALL)).toMatchObject({
      code: 0,
      stdout: 'Nothing to revoke: no key of workspace ws_1 works.\nNothing was changed.',
    })
  })

  test('ends as the real run for a token that may read only', async () => {
    await issue('a')
    const words = [...REVOKE_ALL, '--yes', '--token', await readingToken()]
    expect((await dry(...words)).code).toBe(77)
    expect((await site.postern(...words)).code).toBe(77)
  })
})

describe('keys import --dry-run', () => {
  const entryOf = (secret: string, more: object = {}) => ({
    digest: digestKey(secret),
    hint: `…${secret.slice(-4)}`,
    workspaceId: 'ws_1',
    name: secret,
    scopes: ['files:read'],
    expiresAt: new Date(Date.now() + 86_400_000).toISOString(),
    ...more,
  })
  const fileOf = (entries: readonly object[]) => {
    const file = join(temporaryDirectory(), 'keys.ndjson')
    writeFileSync(file, entries.map(entry => JSON.stringify(entry)).join('\n'))
    return file
  }
  const named = (secret: string) => entryOf(secret, { name: `name of ${secret.slice(0, 1)}` })

  test('counts what would be imported and names its first lines; invalid lines as in the real run', async () => {
    await site.postern('keys', 'import', fileOf([named('a-0001')]))
    const wrong = { ...named('b-0002'), scopes: ['files:fly'] }
    const file = fileOf([named('a-0001'), wrong, named('c-0003'), named('c-0003')])
    const exit = await dry('keys', 'import', file)
    expect(exit).toMatchObject({
      code: 65,
      stdout: [
        'Would import 1 key; 2 existed already; 1 invalid:',
        '  line 3: …0003, name of c, workspace ws_1',
        'Nothing was changed.',
      ].join('\n'),
    })
    const json = await dry('keys', 'import', file, '--json')
    const errors = [{ line: 2, error: expect.stringContaining('scopes must be') }]
    const sums = { imported: 1, exists: 2, invalid: 1, errors }
    expect(JSON.parse(json.stdout)).toEqual({ dryRun: true, ...sums, lines: [3] })
    const done = await site.postern('keys', 'import', file)
    expect([exit.code, exit.stderr]).toEqual([done.code, done.stderr])
    expect(done.stdout).toBe('Imported 1 key; 2 existed already; 1 invalid.')
  })

  test('a file that cannot be read, a line that is no object, and a token that may read only end as in the real run', async () => {
    const noObject = join(temporaryDirectory(), 'keys.ndjson')
    writeFileSync(noObject, '[]')
    const commands = [
      [64, ['/nowhere/keys.ndjson']],
      [64, [noObject]],
      [77, [fileOf([named('d-0004')]), '--token', await readingToken()]],
    ] as const
    for (const [code, words] of commands) {
      const exit = await dry('keys', 'import', ...words)
      expect([exit.code, exit.stderr]).toEqual([code, expect.stringContaining('. Nothing was changed.')])
      expect((await site.postern('keys', 'import', ...words)).code).toBe(code)
    }
  })
})
