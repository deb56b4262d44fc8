import { spawnSync } from 'node:child_process'
import { chmodSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { changeContexts } from '../../src/cli/client/session.ts'
import { fileWith } from '../config/examples.ts'
import { runPosternHere } from '../support/postern-here.ts'
import { type Exit, PROGRAM } from '../support/postern-process.ts'
import { ScriptedAdmin, says, TOKEN } from '../support/scripted-admin.ts'
import { temporaryDirectory } from '../support/temporary-directory.ts'

const LIST = ['keys', 'list', '--workspace', 'ws_1']
const OTHER_TOKEN = 'the-token-of-another-console'

let admin: ScriptedAdmin
let home: string
beforeAll(async () => {
  admin = await ScriptedAdmin.start()
})
afterAll(() => admin.stop())
beforeEach(() => {
  admin.answers(says(200, { keys: [] }))
  home = temporaryDirectory()
})

const file = () => join(home, '.config', 'postern', 'config.yaml')
const postern = (...args: string[]) => runPosternHere(args, { HOME: home })
const tokenSent = () => admin.requests.at(-1)?.headers.authorization

/** Runs a command with this text on standard input. */
const type = (input: string, ...args: string[]): Promise<Exit> => runPosternHere(args, { HOME: home }, input)

const add = (name: string, url = admin.url) => type(`${TOKEN}\n`, 'context', 'add', name, '--url', url)

describe('a context', () => {
  test('holds the address and the token of a console, in a file that only its owner can read', async () => {
    expect((await add('prod')).code).toBe(0)
    expect([statSync(file()).mode & 0o777, statSync(dirname(file())).mode & 0o777]).toEqual([0o600, 0o700])
    expect((await postern(...LIST)).code).toBe(0)
    expect(tokenSent()).toBe(`Bearer ${TOKEN}`)
  })

  test('can name the file of the token, which is read at each command', async () => {
    const tokenFile = fileWith(OTHER_TOKEN)
    const words = ['context', 'add', 'prod', '--url', admin.url, '--token-file', tokenFile]
    expect((await postern(...words)).code).toBe(0)
    expect(readFileSync(file(), 'utf8')).not.toContain(OTHER_TOKEN)
    writeFileSync(tokenFile, TOKEN)
    await postern(...LIST)
    expect(tokenSent()).toBe(`Bearer ${TOKEN}`)
  })

  test('is chosen by `use`, or for one command by --context', async () => {
    await add('first', 'http://127.0.0.1:1')
    await add('second')
    expect((await postern(...LIST)).stderr).toContain('http://127.0.0.1:1')
    expect((await postern(...LIST, '--context', 'second')).code).toBe(0)
    expect((await postern('context', 'use', 'second')).code).toBe(0)
    expect((await postern(...LIST)).code).toBe(0)
  })

  test('is listed without its token', async () => {
    await add('prod')
    await add('staging')
    const { stdout } = await postern('context', 'list')
    expect(stdout.split('\n')).toEqual([
      expect.stringMatching(/^NAME +CONSOLE +TOKEN +API +KEY +IN USE$/),
      expect.stringMatching(/^prod +http:\S+ +saved +– +– +yes$/),
      expect.stringMatching(/^staging +http:\S+ +saved +– +–$/),
    ])
    const json = (await postern('context', 'list', '-o', 'json')).stdout
    expect(JSON.parse(json)).toMatchObject({ contexts: [{ name: 'prod' }, { name: 'staging' }] })
    expect(stdout + json).not.toContain(TOKEN)
    expect((await postern('context', 'list', '-q')).stdout).toBe('prod\nstaging')
  })

  test('is in use once `use` names it, and says so', async () => {
    await add('prod')
    expect((await add('staging')).stderr).toBe('Added staging. prod is in use.\n')
    expect(await postern('context', 'use', 'staging')).toMatchObject({
      code: 0,
      stderr: 'staging is in use.\n',
    })
  })

  test('is forgotten with its token by `remove`', async () => {
    await add('prod')
    expect((await postern('context', 'remove', 'prod')).code).toBe(0)
    expect(readFileSync(file(), 'utf8')).not.toContain(TOKEN)
    expect((await postern(...LIST)).code).toBe(64)
  })

  test('is not replaced by another one of its name', async () => {
    await add('prod')
    expect(await add('prod', 'http://127.0.0.1:1')).toMatchObject({
      code: 64,
      stderr: expect.stringContaining('postern context remove prod'),
    })
  })

  test('is not lost where others are added, chosen and removed at the same time', async () => {
    await add('old')
    const names = ['a', 'b', 'c', 'd', 'e', 'f']
    const changes = [...names.map(name => add(name)), postern('context', 'remove', 'old')]
    for (const { code } of await Promise.all(changes)) expect(code).toBe(0)
    expect((await postern('context', 'list', '-q')).stdout.split('\n').toSorted()).toEqual(names)
    expect(readdirSync(dirname(file()))).toEqual(['config.yaml'])
  })

  test('is not added while another command changes the file, or where a killed one left its own', async () => {
    await add('prod')
    const before = readFileSync(file(), 'utf8')
    writeFileSync(`${file()}.new`, 'half')
    expect(await add('staging')).toMatchObject({
      code: 78,
      stderr: expect.stringContaining(`delete ${file()}.new`),
    })
    expect([readFileSync(file(), 'utf8'), readFileSync(`${file()}.new`, 'utf8')]).toEqual([before, 'half'])
  })

  test('is found in XDG_CONFIG_HOME, if that is set', async () => {
    const env = { HOME: '/nowhere', XDG_CONFIG_HOME: home }
    const words = ['context', 'add', 'prod', '--url', admin.url, '--token-file', fileWith(TOKEN)]
    expect((await runPosternHere(words, env)).code).toBe(0)
    expect(statSync(join(home, 'postern', 'config.yaml')).isFile()).toBe(true)
    expect((await runPosternHere(LIST, env)).code).toBe(0)
  })
})

describe('flags take precedence over the environment, and the environment over the context in use', () => {
  beforeEach(() => add('prod', 'http://127.0.0.1:1'))
  const env = () => ({ HOME: home, POSTERN_CONSOLE_URL: admin.url, POSTERN_ADMIN_TOKEN: OTHER_TOKEN })

  test('environment', async () => {
    expect((await runPosternHere(LIST, env())).code).toBe(0)
    expect(tokenSent()).toBe(`Bearer ${OTHER_TOKEN}`)
  })

  test('flags', async () => {
    const flags = ['--url', admin.url, '--token', 'the-token-of-a-flag']
    expect((await runPosternHere([...LIST, ...flags], env())).code).toBe(0)
    expect(tokenSent()).toBe('Bearer the-token-of-a-flag')
  })

  test('a context that is named by a flag', async () => {
    const exit = await runPosternHere([...LIST, '--context', 'prod'], env())
    expect(exit).toMatchObject({ code: 69, stderr: expect.stringContaining('http://127.0.0.1:1') })
  })

  test.each([[[]], [['--context', 'prod']]])(
    'the token of a context goes to no other console: %j',
    async flags => {
      const exit = await postern(...LIST, '--url', admin.url, ...flags)
      expect(exit).toMatchObject({ code: 64, stderr: expect.stringContaining('admin token is missing') })
      expect(admin.requests).toEqual([])
    },
  )
})

describe('errors', () => {
  test('a file that others can read is refused, with what to do', async () => {
    await add('prod')
    chmodSync(file(), 0o640)
    const exit = await postern(...LIST)
    expect(exit).toMatchObject({ code: 78, stderr: expect.stringContaining(`chmod 600 ${file()}`) })
    expect(admin.requests).toEqual([])
  })

  test('a folder of the contexts that cannot be made is the reason given, not another command', async () => {
    mkdirSync(join(home, '.config'))
    writeFileSync(dirname(file()), '')
    const change = changeContexts(file(), contexts => contexts)
    await expect(change).rejects.toThrow(`${file()} cannot be written`)
  })

  test('a home directory in which the system lets no directory be made ends the command, with what to do', () => {
    const words = ['context', 'add', 'prod', '--url', admin.url, '--token-file', fileWith(TOKEN)]
    // In a process of its own: it never ended, and gave no other code of its process a turn.
    const { status, stderr } = spawnSync(process.execPath, [...PROGRAM, ...words], {
      env: { HOME: '/proc/1' },
      encoding: 'utf8',
      timeout: 20_000,
      killSignal: 'SIGKILL',
    })
    expect([status, stderr]).toEqual([
      78,
      expect.stringContaining('/proc/1/.config/postern/config.yaml cannot be written: ENOENT'),
    ])
    expect(stderr).toContain('Set HOME or XDG_CONFIG_HOME to a directory in which you may write')
  })

  test('a file that is no list of contexts is refused, and not repeated', async () => {
    await add('prod')
    writeFileSync(file(), `contexts: [${TOKEN}`)
    const exit = await postern(...LIST)
    expect(exit).toMatchObject({ code: 78, stderr: expect.stringContaining('is not a list of contexts') })
    expect(exit.stderr).not.toContain(TOKEN)
  })

  test('a similar name is suggested for an unknown context', async () => {
    await add('production')
    const exit = await postern('context', 'use', 'prodction')
    expect(exit).toMatchObject({ code: 64, stderr: expect.stringContaining('(did you mean production?)') })
  })

  test.each([
    ['an empty token', '', ['prod', '--url', 'http://u']],
    ['a token with a space', 'a b', ['prod', '--url', 'http://u']],
    ['an address with a password', TOKEN, ['prod', '--url', 'http://a:b@u']],
    ['a name with a slash', TOKEN, ['a/b', '--url', 'http://u']],
  ])('%s is not saved', async (_, input, words) => {
    expect((await type(input, 'context', 'add', ...words)).code).toBe(64)
    expect((await postern('context', 'list')).stdout).toBe('')
  })
})
