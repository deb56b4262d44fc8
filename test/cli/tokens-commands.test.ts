import { beforeEach, describe, expect, test } from 'vitest'
import { type ConsoleWithCommands, startConsoleWithCommands } from '../support/console-commands.ts'

let site: ConsoleWithCommands
beforeEach(async () => {
  site = await startConsoleWithCommands()
})

const ISSUE = ['tokens', 'issue', '--name', 'deploy job', '--permission', 'keys:write,tokens:write']

async function issue(...words: string[]) {
  const { code, stdout, stderr } = await site.postern(...ISSUE, ...words)
  expect([code, stdout]).toEqual([0, expect.stringMatching(/^pat_\w+$/)])
  return { secret: stdout, stderr, id: /tok_\w{26}/.exec(stderr)?.[0] ?? '' }
}

describe('tokens issue', () => {
  test('prints the secret alone on standard output, and it works', async () => {
    const { secret, stderr } = await issue('--workspace', 'ws_1,ws_2', '--expires-in', '7d')
    expect(stderr).toMatch(
      /^Issued tok_\w+ \(pat_….{4}, deploy job\): keys:write tokens:write in ws_1 ws_2; expires /,
    )
    expect(stderr).not.toContain(secret)
    const { code, stdout } = await site.withToken(secret)('whoami')
    expect(code).toBe(0)
    expect(stdout).toMatch(/^Actor +token:tok_\w{26}$/m)
    expect(stdout).toMatch(/^Name +deploy job$/m)
    expect(stdout).toMatch(/^Permissions +keys:read keys:write tokens:write$/m)
    expect(stdout).toMatch(/^Workspaces +ws_1 ws_2$/m)
    expect(stdout).toMatch(/^Expires +.* UTC, in 7 days$/m)
    expect(stdout.split('\n').filter(line => line.length > 80)).toEqual([])
  })

  test('a token with more rights than its maker is refused', async () => {
    const { secret } = await issue('--workspace', 'ws_1')
    const exit = await site.withToken(secret)(...ISSUE)
    expect(exit).toMatchObject({ code: 77, stdout: '', stderr: expect.stringContaining('its maker lacks') })
  })

  test.each([[['--permission', 'keys:all']], [['--workspace', 'a/b']], [['--expires-in', '400d']]])(
    '%j is a wrong command line',
    async words => {
      expect(await site.postern(...ISSUE, ...words)).toMatchObject({ code: 64, stdout: '' })
    },
  )
})

describe('tokens list and revoke', () => {
  test('the list fits 80 columns, and holds no secret', async () => {
    const { id, secret } = await issue('--workspace', 'ws_1')
    const { stdout } = await site.withToken('admin-token-of-the-tests', { COLUMNS: '80' })('tokens', 'list')
    const [head = '', row = '', ...more] = stdout.split('\n')
    expect(more).toEqual([])
    expect(head).toMatch(/^ID +HINT +NAME +/)
    expect(row).toMatch(new RegExp(`^${id} +pat_….{4} +deploy job +`))
    expect([head, row].filter(line => line.length > 80)).toEqual([])
    expect((await site.postern('tokens', 'list', '-q')).stdout).toBe(id)
    const { tokens } = (await site.send('GET', '/admin/v1/tokens')).body
    expect(JSON.parse((await site.postern('tokens', 'list', '-o', 'json')).stdout)).toEqual({ tokens })
    expect(JSON.parse((await site.postern('tokens', 'list', '-o', 'ndjson')).stdout)).toEqual(tokens[0])
    expect(stdout).not.toContain(secret)
  })

  test('a revoked token is rejected', async () => {
    const { id, secret } = await issue()
    const exit = await site.postern('tokens', 'revoke', id, '--yes')
    expect([exit.code, exit.stdout]).toEqual([0, expect.stringMatching(/^Revoked tok_.*, deploy job\) at /)])
    expect(await site.withToken(secret)('whoami')).toMatchObject({
      code: 77,
      stderr: expect.stringContaining('was revoked'),
    })
    expect((await site.postern('tokens', 'list')).stdout).toContain('revoked')
  })

  test('a script is asked nothing', async () => {
    const { id, secret } = await issue()
    expect(await site.postern('tokens', 'revoke', id)).toMatchObject({ code: 0, stderr: '' })
    expect((await site.withToken(secret)('whoami')).code).toBe(77)
  })

  test('nothing is revoked by what is no id', async () => {
    const { secret } = await issue()
    const pasted = await site.postern('tokens', 'revoke', secret, '--yes')
    expect([pasted.code, pasted.stderr.includes(secret)]).toEqual([64, false])
    expect((await site.withToken(secret)('whoami')).code).toBe(0)
  })
})

describe('whoami', () => {
  test('of the operator’s token: every right, everywhere', async () => {
    const { stdout } = await site.postern('whoami', '--json')
    expect(JSON.parse(stdout)).toEqual({
      actor: 'admin-token',
      kind: 'operator',
      name: null,
      permissions: ['keys:read', 'keys:write', 'audit:read', 'tokens:write'],
      workspaces: null,
      expiresAt: null,
    })
  })

  test('works with any permission, and not without a token', async () => {
    const { stdout: secret } = await site.postern(
      ...['tokens', 'issue', '--name', 'auditor', '--permission', 'audit:read'],
    )
    expect((await site.withToken(secret)('whoami')).code).toBe(0)
    expect((await site.withToken('not-the-token-of-this-console')('whoami')).code).toBe(77)
  })
})
