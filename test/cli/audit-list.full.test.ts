import { beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { ADMIN_TOKEN } from '../support/console.ts'
import { type ConsoleWithCommands, startConsoleWithCommands } from '../support/console-commands.ts'
import { PosternProcess } from '../support/postern-process.ts'

const LIST = ['audit', 'list']

let site: ConsoleWithCommands
let keys: string[]
const issue = async (name: string, workspace = 'ws_1'): Promise<string> => {
  const key = { name, scopes: ['files:read'] }
  const answer = await site.send('POST', `/admin/v1/workspaces/${workspace}/keys`, key)
  return answer.body.key.id
}
beforeEach(async () => {
  site = await startConsoleWithCommands()
  keys = [await issue('first'), await issue('second')]
  await site.send('POST', `/admin/v1/keys/${keys[0]}/revoke`)
})

describe('audit list', () => {
  test('fits 80 columns, newest first', async () => {
    const { code, stdout } = await site.withToken(ADMIN_TOKEN, { COLUMNS: '80' })(...LIST)
    const [head = '', ...rows] = stdout.split('\n')
    expect([code, head]).toEqual([0, expect.stringMatching(/^AT \(UTC\) +ACTION +KEY +/)])
    expect(rows).toEqual([
      expect.stringMatching(new RegExp(`key\\.revoked +${keys[0]}`)),
      expect.stringMatching(new RegExp(`key\\.issued +${keys[1]}`)),
      expect.stringMatching(new RegExp(`key\\.issued +${keys[0]}`)),
    ])
    expect([head, ...rows].filter(line => line.length > 80)).toEqual([])
  })

  test('is what audit alone does, with the same options', async () => {
    const { code, stdout } = await site.postern('audit', '--action', 'key.revoked', '-q')
    expect([code, stdout]).toEqual([0, expect.stringMatching(/^audit_[0-9A-Z]{26}$/)])
  })

  test('is narrowed by its conditions', async () => {
    const entries = async (...words: string[]) => {
      const { stdout } = await site.postern(...LIST, ...words, '-o', 'json')
      return (JSON.parse(stdout) as { entries: unknown[] }).entries.length
    }
    expect(await entries('--key', keys[0] ?? '')).toBe(2)
    expect(await entries('--action', 'key.revoked')).toBe(1)
    expect(await entries('--actor', 'person:eve')).toBe(0)
    expect(await entries('--from', '2999-01-01T00:00:00Z')).toBe(0)
    expect(await entries('--to', '2999-01-01T00:00:00Z')).toBe(3)
    await issue('elsewhere', 'ws_2')
    expect(await entries()).toBe(4)
    expect(await entries('--workspace', 'ws_2')).toBe(1)
    expect(await entries('--workspace', 'ws_1', '--action', 'key.issued')).toBe(2)
    expect(await entries('--workspace', 'ws_2', '--key', keys[0] ?? '')).toBe(0)
  })

  test('--workspace of another is not found for a token of some workspaces', async () => {
    const words = ['--name', 'auditor', '--permission', 'audit:read', '--workspace', 'ws_1']
    const { stdout } = await site.postern('tokens', 'issue', ...words)
    const auditor = site.withToken(stdout.trim())
    expect((await auditor(...LIST, '--workspace', 'ws_1', '-q')).code).toBe(0)
    const other = await auditor(...LIST, '--workspace', 'ws_2')
    expect([other.code === 0, other.stdout, other.stderr]).toEqual([
      false,
      '',
      expect.stringContaining('No such workspace'),
    ])
  })

  test('says so if more entries match than --limit', async () => {
    const { stdout, stderr } = await site.postern(...LIST, '--limit', '2', '-q')
    expect(stdout.split('\n')).toHaveLength(2)
    expect(stderr).toContain('More entries match than 2')
    expect((await site.postern(...LIST, '--limit', '3')).stderr).toBe('')
  })

  test.each([
    [['--from', 'yesterday']],
    [['--key', 'nosuch']],
    [['--workspace', 'a/b']],
    [['--limit', '0']],
    [['--follow', '--to', '2999-01-01T00:00:00Z']],
    [['--follow', '-o', 'json']],
  ])('%j is a wrong command line', async words => {
    expect(await site.postern(...LIST, ...words)).toMatchObject({ code: 64, stdout: '' })
  })
})

test('audit list --follow prints what is there, then new entries, each once', async () => {
  const env = { POSTERN_CONSOLE_URL: site.url, POSTERN_ADMIN_TOKEN: ADMIN_TOKEN }
  const following = new PosternProcess([...LIST, '--follow', '-o', 'ndjson'], env)
  onTestFinished(() => void following.child.kill('SIGKILL'))
  await following.line(line => line.includes('key.revoked'))
  for (const name of ['third', 'fourth']) {
    const id = await issue(name)
    await following.line(line => line.includes(id))
  }

  expect(following.log.map(({ action }) => action)).toEqual([
    'key.issued',
    'key.issued',
    'key.revoked',
    'key.issued',
    'key.issued',
  ])
  expect(new Set(following.log.map(({ id }) => id)).size).toBe(5)
})

test('audit list --follow --from prints no entry from before', async () => {
  const earlier = await issue('fifth')
  const { stdout } = await site.postern(...LIST, '--limit', '1', '-o', 'ndjson')
  const from = new Date(Date.parse(JSON.parse(stdout).at) + 1).toISOString()
  const env = { POSTERN_CONSOLE_URL: site.url, POSTERN_ADMIN_TOKEN: ADMIN_TOKEN }
  const following = new PosternProcess([...LIST, '--follow', '--from', from, '-o', 'ndjson'], env)
  onTestFinished(() => void following.child.kill('SIGKILL'))
  for (const name of ['sixth', 'seventh', 'eighth']) {
    const id = await issue(name)
    await following.line(line => line.includes(id))
  }
  expect(following.lines.filter(line => line.includes(earlier))).toEqual([])
})
