import type { Command } from 'commander'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createCommandTree } from '../../src/cli/program/program.ts'
import type { Host } from '../../src/run/host.ts'
import { runPosternHere } from '../support/postern-here.ts'
import { keyJson, refuses, ScriptedAdmin, says } from '../support/scripted-admin.ts'
import { SIGNING_SECRET } from '../support/signing-secret.ts'

const KEY = 'key_01JD0000000000000000000000'
const TOKEN = 'tok_01JD0000000000000000000000'
const WORKSPACE = ['--workspace', 'ws_1']
const AT = '2026-11-01T00:00:00.000Z'

/** Each command that prints JSON, with the words that it needs, and the warnings that it has about `RICH`. */
const COMMANDS: Readonly<
  Record<string, { readonly words?: readonly string[]; readonly warns?: readonly string[] }>
> = {
  'keys issue': { words: [...WORKSPACE, '--scope', 'files:read'] },
  'keys list': {},
  'keys show': { words: [KEY] },
  'keys find': { words: ['--hint', 'x7Qf'] },
  'keys usage': { words: [KEY] },
  'keys edit': { words: [KEY, '--name', 'new'], warns: ['not_announced'] },
  'keys rotate': { words: [KEY, '--overlap', '0s'], warns: ['not_announced'] },
  'keys suspend': { words: [KEY], warns: ['not_announced'] },
  'keys resume': { words: [KEY], warns: ['not_announced'] },
  'keys revoke': { words: [KEY, '--yes'], warns: ['not_announced'] },
  'keys revoke-all': { words: [...WORKSPACE, '--yes'], warns: ['not_announced'] },
  'keys import': { words: ['-'] },
  'keys sync': {},
  'workspaces list': {},
  'workspaces plan': { words: ['ws_1', '--clear', '--yes'], warns: ['not_announced'] },
  'refusals list': { warns: ['incomplete'] },
  'limits list': {},
  'tokens issue': { words: ['--name', 'ci', '--permission', 'keys:read'] },
  'tokens list': {},
  'tokens revoke': { words: [TOKEN, '--yes'] },
  'webhooks show': { words: WORKSPACE },
  'webhooks set': { words: ['https://hooks.example.com/', ...WORKSPACE] },
  'webhooks test': { words: WORKSPACE },
  'webhooks remove': { words: [...WORKSPACE, '--yes'] },
  whoami: {},
  'audit list': { words: ['--limit', '1'], warns: ['more_entries'] },
  'context list': {},
  doctor: { words: ['gateway'] },
}

const revoked = { state: 'revoked', revokedAt: AT }
const entry = { id: 'audit_1', at: AT, workspaceId: null, actor: 'a', action: 'b', keyId: null, detail: {} }
const token = {
  ...{ id: TOKEN, name: 'ci', hint: '…abcd', permissions: ['keys:read'], workspaces: null },
  ...{ createdAt: AT, createdBy: 'a', expiresAt: AT, revokedAt: null, lastUsedAt: null },
}
/** What each command reads, in one response. No part of it is announced, and its lists are not complete. */
const RICH = {
  ...{ key: keyJson(), secret: 'wsk_x', replaced: keyJson(revoked), keys: [keyJson()] },
  ...{
    announced: false,
    committedAt: null,
    gateways: null,
    revoked: 1,
    removed: true,
    changed: 1,
    plan: null,
  },
  ...{ synced: 1, total: 1, results: [], step: 'hour', usage: [], windows: [], limits: [], refusals: [] },
  ...{ sampled: true, token, tokens: [token], entries: [entry, entry], workspaces: [], changes: {} },
  ...{ webhook: { url: 'https://hooks.example.com/', createdAt: AT, createdBy: 'a' } },
  ...{ url: 'https://hooks.example.com/', sent: true },
  ...{ actor: 'a', kind: 'token', name: 'ci', permissions: ['keys:read'], expiresAt: null },
}

let admin: ScriptedAdmin
beforeAll(async () => {
  admin = await ScriptedAdmin.start()
})
afterAll(() => admin.stop())

/** `whoami` names its workspaces where others list them. */
const richFor = (name: string) => ({ ...RICH, workspaces: name === 'whoami' ? null : [] })

/** With the settings of a gateway, which `doctor` asks for. */
const environment = () => ({
  ...admin.env,
  POSTERN_UPSTREAM_URL: admin.url,
  POSTERN_KEY_SERVICE_URL: admin.url,
  POSTERN_KEY_SERVICE_TOKEN: 'a-token-of-the-key-service',
  POSTERN_KEYS_SIGNING_SECRETS: SIGNING_SECRET.toString('base64'),
})

async function linesOf(name: string, format: readonly string[], more: readonly string[] = []) {
  const { words = [] } = COMMANDS[name] ?? {}
  const ran = await runPosternHere([...name.split(' '), ...words, ...more, ...format], environment())
  const lines = ran.stderr.split('\n').filter(line => line !== '')
  return { ...ran, lines: lines.map(line => JSON.parse(line) as Record<string, unknown>) }
}

function jsonCommands(command: Command, path: readonly string[] = []): string[] {
  const own = command.options.some(({ long }) => long === '--json') ? [path.join(' ')] : []
  return [...own, ...command.commands.flatMap(child => jsonCommands(child, [...path, child.name()]))]
}

test('the table of this test has every command that takes --json', async () => {
  const host = { argv: [], write: () => {}, writeError: () => {} } as unknown as Host
  const program = await createCommandTree({ host, version: '0', showsAll: false }, () => true)
  expect(jsonCommands(program).toSorted()).toEqual(Object.keys(COMMANDS).toSorted())
})

describe.each(Object.keys(COMMANDS))('with --json standard error of %s is JSON, a line each', name => {
  test('for what it warns of', async () => {
    admin.answers(says(200, richFor(name)))
    const { code, lines, stdout } = await linesOf(name, ['--json'])
    const { warns = [] } = COMMANDS[name] ?? {}
    expect(lines.filter(line => 'warning' in line)).toEqual(
      warns.map(code => ({ warning: expect.stringMatching(/\w/), code })),
    )
    expect(lines).toHaveLength(warns.length)
    expect([code === 0 || name === 'doctor', typeof JSON.parse(stdout)]).toEqual([true, 'object'])
  })

  test.each([
    ['a console that has a fault', () => refuses(500, 'internal', 'Internal error')],
    ['a proxy in its place', () => says(502, '<html>')],
    ['a response that is not understood', () => says(200, { of: 'another release' })],
  ])('for %s', async (_, script) => {
    admin.answers(script())
    const { code, lines } = await linesOf(name, ['--json'])
    if (name === 'context list' || name === 'keys import' || name === 'doctor') return
    expect(code).not.toBe(0)
    expect(lines).toEqual([expect.objectContaining({ error: expect.any(String), code: expect.any(String) })])
  })

  test('for an option that does not exist', async () => {
    expect((await linesOf(name, ['--json'], ['--no-such'])).lines).toEqual([
      { error: expect.stringContaining('--no-such'), code: 'usage' },
    ])
  })
})

test.each([['-o', 'json'], ['-o', 'ndjson'], ['--output=ndjson']])(
  'so it is with %s %s',
  async (...format) => {
    admin.answers(says(200, RICH))
    expect((await linesOf('refusals list', format)).lines).toMatchObject([{ code: 'incomplete' }])
  },
)

test('without it the same warning is a plain line', async () => {
  admin.answers(says(200, RICH))
  const { stderr } = await runPosternHere(['audit', 'list', '--limit', '1'], admin.env)
  expect(stderr).toBe('More entries match than 1: raise --limit, or narrow with --from and --to.\n')
})

test('an import names the first hundred invalid lines, and counts all', async () => {
  const invalid = Array.from({ length: 1000 }, () => ({ status: 'invalid', error: 'a reason' }))
  const lines = Array.from({ length: 2500 }, () => '{}').join('\n')
  const respond = (count: number) => says(200, { results: invalid.slice(0, count) })
  admin.answers(respond(1000), respond(1000), respond(500))
  const whole = await runPosternHere(['keys', 'import', '-', '--json'], admin.env, lines)
  const printed = JSON.parse(whole.stdout)
  expect([printed.invalid, printed.errors.length, printed.errors.at(-1).line]).toEqual([2500, 100, 100])
  admin.answers(respond(1000), refuses(400, 'invalid_request', 'no'))
  const broken = await runPosternHere(['keys', 'import', '-', '--json'], admin.env, lines)
  const failed = JSON.parse(broken.stderr)
  expect([failed.invalid, failed.errors.length, failed.code]).toEqual([1000, 100, 'invalid_request'])
})
