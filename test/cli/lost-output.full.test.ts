import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { ADMIN_TOKEN } from '../support/console.ts'
import { type ConsoleWithCommands, startConsoleWithCommands } from '../support/console-commands.ts'
import { runPosternHere } from '../support/postern-here.ts'
import { PROGRAM } from '../support/postern-process.ts'
import { keyJson, refuses, ScriptedAdmin, says } from '../support/scripted-admin.ts'
import { makeSmallDisk } from '../support/small-disk.ts'
import { temporaryDirectory } from '../support/temporary-directory.ts'

const ISSUE = ['keys', 'issue', '--workspace', 'ws_1', '--scope', 'files:read']
const TOKEN = ['tokens', 'issue', '--name', 'job', '--permission', 'keys:read']
const WEBHOOK = ['webhooks', 'set', 'https://8.8.8.8/in', '--workspace', 'ws_1']
/** Of a shell, in units of 512 bytes. */
const SIZE_LIMIT_BYTES = 512

let site: ConsoleWithCommands
beforeEach(async () => {
  site = await startConsoleWithCommands({ workspaceWebhooks: { enabled: true } })
})

/** Runs a command in a shell, since no API of Node gives a process such an output. */
async function runTo(redirect: string, words: readonly string[], before = '', url = site.url) {
  const command = `${before} exec "$@" ${redirect}`
  const program = [process.execPath, ...PROGRAM, ...words]
  const child = spawn('sh', ['-c', command, 'sh', ...program], {
    env: {
      PATH: process.env['PATH'],
      POSTERN_CONSOLE_URL: url,
      POSTERN_ADMIN_TOKEN: ADMIN_TOKEN,
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  onTestFinished(() => void child.kill())
  if (redirect === '') child.stdout.destroy()
  const [stderr, [code]] = await Promise.all([text(child.stderr), once(child, 'close')])
  return { code, stderr }
}

function firstOf<Item>([first]: readonly Item[]): Item {
  return first ?? expect.unreachable('There is none')
}

const keysOf = async () => (await site.send('GET', '/admin/v1/keys')).body.keys
const tokensOf = async () => (await site.send('GET', '/admin/v1/tokens')).body.tokens
const webhookOf = async () => {
  const { text: body } = await site.send('GET', '/admin/v1/workspaces/ws_1/webhook')
  return JSON.parse(body).webhook
}

describe('a new secret that cannot be printed ends, and the command says so', () => {
  test.each([
    ['a full device', '>/dev/full', 'ENOSPC', []],
    ['a full device, as JSON', '>/dev/full', 'ENOSPC', ['--json']],
    ['a pipe that is closed', '', 'EPIPE', []],
    ['a pipe that is closed, as JSON', '', 'EPIPE', ['--json']],
  ])('a key, with %s', async (_, redirect, code, options) => {
    const exit = await runTo(redirect, [...ISSUE, ...options])
    const key = firstOf(await keysOf())
    expect(exit.code).toBe(1)
    expect(exit.stderr).toContain(`The secret of ${key.id} could not be written to standard output (${code})`)
    expect(exit.stderr).toContain(`${key.id} was revoked again`)
    expect(key.state).toBe('revoked')
  })

  test('a key, where the output fails in the middle of the secret', async () => {
    const file = join(temporaryDirectory(), 'output')
    const earlier = 'x'.repeat(SIZE_LIMIT_BYTES - 10)
    writeFileSync(file, earlier)
    const exit = await runTo(`>>${file}`, ISSUE, 'ulimit -S -f 1;')
    const key = firstOf(await keysOf())
    expect(readFileSync(file)).toHaveLength(SIZE_LIMIT_BYTES)
    expect(exit).toMatchObject({ code: 1, stderr: expect.stringContaining(`${key.id} was revoked again`) })
    expect(key.state).toBe('revoked')
  })

  test('an admin token', async () => {
    const exit = await runTo('>/dev/full', TOKEN)
    const token = firstOf(await tokensOf())
    expect(exit).toMatchObject({ code: 1, stderr: expect.stringContaining(`${token.id} was revoked again`) })
    expect(token.revokedAt).not.toBeNull()
  })

  test.each<[string, string[], string, RegExp]>([
    ['with an overlap', [], 'retiring', /still works until .*cannot be rotated again.* before then: /],
    ['without an overlap', ['--overlap', '0s'], 'revoked', /is revoked\. Issue another key now: /],
  ])(
    'the successor of a rotation %s, and what is left of the old key is named',
    async (_, options, state, said) => {
      await site.postern(...ISSUE)
      const old = firstOf(await keysOf())
      const exit = await runTo('>/dev/full', ['keys', 'rotate', old.id, ...options])
      const keys = await keysOf()
      expect(exit.code).toBe(1)
      expect(exit.stderr).toMatch(said)
      expect(exit.stderr).toContain('`postern keys issue --workspace ws_1 --scope files:read`')
      const olds = keys.filter(({ id }) => id === old.id)
      const others = keys.filter(({ id }) => id !== old.id)
      expect([firstOf(olds).state, firstOf(others).state]).toEqual([state, 'revoked'])
    },
  )

  test('a webhook, unless one was set before, whose events wait', async () => {
    const first = await runTo('>/dev/full', WEBHOOK)
    expect(first).toMatchObject({ code: 1, stderr: expect.stringContaining('The webhook was removed again') })
    expect(await webhookOf()).toBeNull()
    await site.postern(...WEBHOOK)
    const second = await runTo('>/dev/full', WEBHOOK)
    expect(second).toMatchObject({ code: 1, stderr: expect.stringContaining('receivers will reject events') })
    expect(await webhookOf()).toMatchObject({ url: 'https://8.8.8.8/in' })
  })

  test('if the revocation fails too, the command names the key and what to do', async () => {
    const admin = await ScriptedAdmin.start()
    onTestFinished(() => admin.stop())
    const key = keyJson()
    admin.answers(says(201, { key, secret: 'wsk_a' }), refuses(503, 'database_unavailable', 'No database'))
    const exit = await runTo('>/dev/full', ISSUE, '', admin.url)
    expect(exit.code).toBe(1)
    expect(exit.stderr).toContain(`Undoing that failed too, so run \`postern keys revoke ${key['id']}\``)
    expect(exit.stderr).toContain('No database')
  })
})

describe('nothing is issued', () => {
  test.each([
    ['a closed standard output', '>&-'],
    ['/dev/null', '>/dev/null'],
  ])('to %s', async (_, redirect) => {
    for (const command of [ISSUE, TOKEN, WEBHOOK]) {
      const exit = await runTo(redirect, command)
      expect(exit).toMatchObject({ code: 1, stderr: expect.stringContaining('nothing was changed') })
    }
    expect([await keysOf(), await tokensOf(), await webhookOf()]).toEqual([[], [], null])
  })

  test('to a file on a full disk', async () => {
    const disk = makeSmallDisk()
    try {
      if (disk.kind !== 'a mounted disk of 1 MiB') return
      disk.fill(0)
      const exit = await runTo(`>${join(disk.directory, 'secret')}`, ISSUE)
      expect(exit).toMatchObject({ code: 1, stderr: expect.stringContaining('on a full disk') })
      expect(await keysOf()).toEqual([])
    } finally {
      disk.remove()
    }
  })
})

describe('other output that is cut short', () => {
  test('is an error, not a shorter list', async () => {
    for (let count = 0; count < 3; count++) await site.postern(...ISSUE)
    const file = join(temporaryDirectory(), 'list')
    const exit = await runTo(`>${file}`, ['keys', 'list', '--json'], 'ulimit -S -f 1;')
    expect(readFileSync(file)).toHaveLength(SIZE_LIMIT_BYTES)
    const error = 'Standard output cannot be written (EFBIG): the output is incomplete'
    expect([exit.code, JSON.parse(exit.stderr)]).toEqual([1, { error, code: 'failure' }])
  })

  test('is an error of an export too', async () => {
    await site.postern(...ISSUE)
    const exit = await runTo('>/dev/full', ['keys', 'export', '-'])
    expect(exit).toMatchObject({ code: 1, stderr: expect.stringContaining('ENOSPC') })
  })
})

test('a demo whose keys cannot be printed stops, and says so', async () => {
  const exit = await runTo('>/dev/full', ['demo', '--gateway-port', '0', '--console-port', '0'])
  expect(exit).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('The keys of the demo could not be written to standard output (ENOSPC)'),
  })
})

test('a token that does not fit on the disk of the contexts is not saved, nor is a part of it', async () => {
  const disk = makeSmallDisk()
  onTestFinished(() => disk.remove())
  if (disk.kind !== 'a mounted disk of 1 MiB') return
  const folder = join(disk.directory, 'postern')
  mkdirSync(folder)
  disk.fill(0)
  const words = ['context', 'add', 'here', '--url', site.url]
  const exit = await runPosternHere(words, { XDG_CONFIG_HOME: disk.directory }, `${ADMIN_TOKEN}\n`)
  expect(exit).toMatchObject({ code: 78, stderr: expect.stringContaining('cannot be written') })
  expect(readdirSync(folder)).toEqual([])
})
