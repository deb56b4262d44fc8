import { beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest'
import { type ConsoleWithCommands, startConsoleWithCommands } from '../support/console-commands.ts'

const UNKNOWN = 'key_00000000000000000000000000'

let site: ConsoleWithCommands
let id: string
beforeEach(async () => {
  site = await startConsoleWithCommands()
  id = await issue('ws_1', 'importer', '--description', 'nightly import', '--allow-cidr', '192.0.2.7/24')
})

async function issue(workspace: string, name: string, ...words: string[]): Promise<string> {
  const where = ['--workspace', workspace, '--scope', 'files:read', '--name', name]
  const exit = await site.postern('keys', 'issue', ...where, ...words, '--json')
  return JSON.parse(exit.stdout).key.id
}

const keyOf = async (keyId: string) => (await site.send('GET', `/admin/v1/keys/${keyId}`)).body.key

describe('keys show', () => {
  test('shows what is known of a key, in lines of at most 80 columns', async () => {
    const { code, stdout } = await site.postern('keys', 'show', id)
    expect(code).toBe(0)
    for (const line of [
      new RegExp(`^Id +${id}$`, 'm'),
      /^Hint +wsk_….{4}$/m,
      /^Workspace +ws_1$/m,
      /^Name +importer$/m,
      /^Description +nightly import$/m,
      /^Scopes +files:read$/m,
      /^State +active$/m,
      /^Allowed networks +192\.0\.2\.0\/24$/m,
      /^Created +\d{4}-\d\d-\d\d \d\d:\d\d UTC by admin-token$/m,
      /^Expires +\d{4}-\d\d-\d\d \d\d:\d\d UTC, in 90 days$/m,
      /^Last used +Never used$/m,
      /^Version +1$/m,
    ]) {
      expect(stdout).toMatch(line)
    }
    expect(stdout).not.toMatch(/^Revoked/m)
    expect(stdout.split('\n').filter(line => line.length > 80)).toEqual([])
  })

  test('--json prints the response', async () => {
    const { stdout } = await site.postern('keys', 'show', id, '--json')
    expect(JSON.parse(stdout)).toEqual({ key: await keyOf(id) })
  })

  test('an unknown key exits 65', async () => {
    const exit = await site.postern('keys', 'show', UNKNOWN)
    expect(exit).toMatchObject({ code: 65, stdout: '', stderr: expect.stringContaining('No such key') })
  })
})

describe('keys edit', () => {
  test('changes the given fields, and no other', async () => {
    const words = ['--name', 'nightly', '--expires-in', '2d', '--allow-cidr', '10.0.0.0/8,2001:db8::1']
    const exit = await site.postern('keys', 'edit', id, ...words)
    expect(exit).toMatchObject({ code: 0, stderr: '', stdout: expect.stringContaining(`Edited ${id}`) })
    const key = await keyOf(id)
    expect(key).toMatchObject({ name: 'nightly', description: 'nightly import', version: 2 })
    expect(key.allowedCidrs).toEqual(['10.0.0.0/8', '2001:db8::1/128'])
    expect(Date.parse(key.expiresAt) - Date.now()).toBeLessThanOrEqual(2 * 86_400_000)
  })

  test('--clear removes the description and the limit to networks', async () => {
    await site.postern('keys', 'edit', '--clear', 'description', '--clear', 'allow-cidr', id)
    expect(await keyOf(id)).toMatchObject({ description: null, allowedCidrs: [] })
  })

  test('says so if the key has these values already', async () => {
    const { code, stdout } = await site.postern('keys', 'edit', id, '--name', 'importer')
    expect([code, stdout]).toEqual([0, expect.stringContaining('Nothing to edit')])
  })

  test('does not overwrite a change that someone made meanwhile, and says which', async () => {
    // The other edit arrives between the reading and the editing of this one.
    const path = `/admin/v1/keys/${id}`
    const send = globalThis.fetch
    vi.stubGlobal('fetch', async (...[input, init]: Parameters<typeof fetch>) => {
      const isEdit = init?.method === 'PATCH'
      if (isEdit) await site.send('PATCH', path, { name: 'exporter' }, { headers: { 'if-match': '"1"' } })
      return send(input, init)
    })
    onTestFinished(() => void vi.unstubAllGlobals())
    const exit = await site.postern('keys', 'edit', id, '--description', 'x')
    expect(exit.code).toBe(65)
    expect(exit.stderr).toContain(`Someone changed ${id} meanwhile: name is now "exporter", was "importer"`)
    expect(await keyOf(id)).toMatchObject({ name: 'exporter', description: 'nightly import' })
  })

  test.each([
    [[]],
    [['--expires-at', 'tomorrow']],
    [['--allow-cidr', '10.0.0.0/33']],
    [['--clear', 'name']],
    [['--clear', 'description', '--description', 'x']],
    [['--expires-in', '1d', '--expires-at', '2999-01-01T00:00:00Z']],
  ])('with %j is a wrong command line', async words => {
    expect(await site.postern('keys', 'edit', id, ...words)).toMatchObject({ code: 64, stdout: '' })
    expect(await keyOf(id)).toMatchObject({ version: 1 })
  })
})

describe('keys suspend and resume', () => {
  test('say what was done and how far it has come, as revoke does', async () => {
    const suspended = await site.postern('keys', 'suspend', id)
    expect(suspended.code).toBe(0)
    expect(suspended.stdout).toMatch(new RegExp(`^Suspended ${id} .*importer\\) of workspace ws_1\\.\nSaved`))
    expect((await keyOf(id)).state).toBe('suspended')
    const resumed = await site.postern('keys', 'resume', id)
    expect([resumed.code, resumed.stdout]).toEqual([0, expect.stringMatching(/^Resumed .*\nSaved/)])
    expect((await keyOf(id)).state).toBe('active')
  })

  test('refuse a revoked key', async () => {
    await site.postern('keys', 'revoke', id, '--yes')
    const exit = await site.postern('keys', 'suspend', id)
    expect(exit).toMatchObject({ code: 65, stderr: expect.stringContaining('which is final') })
  })
})

describe('keys revoke-all', () => {
  test('revokes the keys of one workspace, with --yes', async () => {
    const second = await issue('ws_1', 'second')
    const other = await issue('ws_2', 'other')
    const exit = await site.postern('keys', 'revoke-all', '--workspace', 'ws_1', '--yes')
    expect([exit.code, exit.stdout]).toEqual([
      0,
      expect.stringMatching(/^Revoked 2 keys of workspace ws_1\.\nSaved/),
    ])
    expect([(await keyOf(id)).state, (await keyOf(second)).state, (await keyOf(other)).state]).toEqual([
      'revoked',
      'revoked',
      'active',
    ])
    const again = await site.postern('keys', 'revoke-all', '--workspace', 'ws_1', '--yes')
    expect(again.stdout).toBe('Nothing to revoke: no key of workspace ws_1 works.')
  })

  test('revokes nothing without a terminal to ask at', async () => {
    expect(await site.postern('keys', 'revoke-all', '--workspace', 'ws_1')).toMatchObject({ code: 64 })
    expect((await keyOf(id)).state).toBe('active')
  })
})
