import { beforeEach, describe, expect, test } from 'vitest'
import { ADMIN_TOKEN } from '../support/console.ts'
import { type ConsoleWithCommands, startConsoleWithCommands } from '../support/console-commands.ts'
import { PASTED_FORMS } from '../support/pasted-forms.ts'
import { runPosternHere } from '../support/postern-here.ts'
import { runs } from '../support/runs.ts'

interface Issued {
  readonly key: { readonly id: string; readonly hint: string }
  readonly secret: string
}

let site: ConsoleWithCommands
let importer: Issued
let reports: Issued
beforeEach(async () => {
  site = await startConsoleWithCommands()
  importer = await issue('ws_1', 'importer', 'files:read')
  reports = await issue('ws_2', 'Monthly reports', 'workspace:read')
})

async function issue(workspace: string, name: string, scope: string): Promise<Issued> {
  const words = ['--workspace', workspace, '--name', name, '--scope', scope, '--json']
  return JSON.parse((await site.postern('keys', 'issue', ...words)).stdout)
}

const idsOf = async (...words: string[]) =>
  (await site.postern('keys', 'list', '-q', ...words)).stdout.split('\n')

describe('keys list', () => {
  test('without a workspace lists the keys of all, with their workspaces, in 80 columns', async () => {
    const { stdout } = await runPosternHere(['keys', 'list'], {
      POSTERN_CONSOLE_URL: site.url,
      POSTERN_ADMIN_TOKEN: ADMIN_TOKEN,
      COLUMNS: '80',
    })
    const [titles = '', ...rows] = stdout.split('\n')
    expect(titles).toMatch(/^ID +HINT +WORKSPACE/)
    expect(rows.map(row => row.split(/\s+/)[0])).toEqual([reports.key.id, importer.key.id])
    expect([titles, ...rows].filter(line => line.length > 80)).toEqual([])
  })

  test.each([
    [['--search', 'REPORTS'], 'reports'],
    [['--scope', 'files:read'], 'importer'],
    [['--workspace', 'ws_1'], 'importer'],
    [['--state', 'revoked'], 'none'],
  ])('%j selects keys', async (words, expected) => {
    const known: Readonly<Record<string, string>> = {
      reports: reports.key.id,
      importer: importer.key.id,
      none: '',
    }
    expect(await idsOf(...words)).toEqual([known[expected]])
  })

  test('--sort orders keys', async () => {
    expect(await idsOf('--sort', 'createdAt')).toEqual([importer.key.id, reports.key.id])
  })

  test('an unknown state or order is a wrong command line, which names the choices', async () => {
    for (const words of [
      ['--state', 'dead'],
      ['--sort', 'age'],
    ]) {
      const exit = await site.postern('keys', 'list', ...words)
      expect(exit).toMatchObject({ code: 64, stderr: expect.stringContaining('Allowed choices are') })
    }
  })

  test('says that no key matches', async () => {
    const exit = await site.postern('keys', 'list', '--workspace', 'ws_1', '--search', 'nightly')
    expect(exit).toMatchObject({ code: 0, stdout: '', stderr: 'Workspace ws_1 has no keys that match.\n' })
  })
})

describe('keys find', () => {
  const find = (input: string, ...words: string[]) =>
    runPosternHere(
      ['keys', 'find', ...words],
      { POSTERN_CONSOLE_URL: site.url, POSTERN_ADMIN_TOKEN: ADMIN_TOKEN },
      input,
    )

  test('shows the key whose secret is on standard input', async () => {
    const { code, stdout } = await find(`${reports.secret}\n`)
    expect(code).toBe(0)
    expect(stdout).toMatch(new RegExp(`^Id +${reports.key.id}$`, 'm'))
    expect(stdout).toMatch(/^Workspace +ws_2$/m)
    expect(stdout).not.toContain(reports.secret)
    expect(await find(reports.secret, '-q')).toMatchObject({ code: 0, stdout: reports.key.id })
  })

  test('finds a key, hint, id or workspace that was pasted with what copying adds, also with a pasted token', async () => {
    for (const [, wrap] of runs(PASTED_FORMS.slice(0, 4), PASTED_FORMS)) {
      expect(await find(wrap(reports.secret), '-q')).toMatchObject({ code: 0, stdout: reports.key.id })
    }
    const quoted = ['--hint', `“${importer.key.hint}”`, '--token', `Bearer ${ADMIN_TOKEN}\n`]
    expect(await find('', ...quoted, '-q')).toMatchObject({ code: 0, stdout: importer.key.id })
    expect(await idsOf('--search', ` \`${importer.key.hint}\``)).toEqual([importer.key.id])
    expect(await idsOf('--workspace', ' "ws_1"')).toEqual([importer.key.id])
    const shown = await site.postern('keys', 'show', `\u200b'${importer.key.id}'`, '--json')
    expect(JSON.parse(shown.stdout).key.id).toBe(importer.key.id)
  })

  test('an unknown secret exits 65 and is not repeated', async () => {
    const exit = await find('wsk_unknown')
    expect(exit).toMatchObject({ code: 65, stdout: '', stderr: expect.stringContaining('No such key') })
    expect(exit.stderr).not.toContain('wsk_unknown')
  })

  test('no input is a wrong command line', async () => {
    expect(await find('')).toMatchObject({ code: 64, stderr: expect.stringContaining('standard input') })
  })

  test('--hint lists the keys with this hint', async () => {
    const exit = await find('', '--hint', importer.key.hint, '-q')
    expect(exit).toMatchObject({ code: 0, stdout: importer.key.id })
  })
})

test('workspaces list counts the keys of each workspace by state', async () => {
  await site.postern('keys', 'revoke', importer.key.id, '--yes')
  const { stdout } = await site.postern('workspaces', 'list', '--json')
  const { workspaces } = JSON.parse(stdout)
  expect(workspaces).toMatchObject([
    { workspaceId: 'ws_1', keys: { active: 0, revoked: 1 } },
    { workspaceId: 'ws_2', keys: { active: 1, revoked: 0 } },
  ])
  expect((await site.postern('workspaces', 'list', '--search', '_2', '-q')).stdout).toBe('ws_2')
  expect((await site.postern('workspaces', 'list')).stdout).toMatch(/^ws_1 +0 +0 +0 +0 +1 +Never used$/m)
})
