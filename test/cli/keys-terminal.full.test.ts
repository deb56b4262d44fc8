import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { keyJson, ScriptedAdmin, says } from '../support/scripted-admin.ts'
import { CTRL_C, CTRL_D, Terminal } from '../support/terminal.ts'
import { has, SCRIPT } from '../support/tools.ts'

const ID = 'key_01JD0000000000000000000000'
const REVOKE = ['keys', 'revoke', ID]
const LIST = ['keys', 'list', '--workspace', 'ws_1']
const revoked = keyJson({ state: 'revoked', revokedAt: '2026-11-20T00:00:00.000Z' })

let admin: ScriptedAdmin
beforeAll(async () => {
  admin = await ScriptedAdmin.start()
})
afterAll(() => admin.stop())

const asked = () => admin.requests.map(({ method }) => method)

describe.skipIf(!has(SCRIPT))('before a key is revoked at a terminal', () => {
  async function untilAsked(redirect = ''): Promise<Terminal> {
    const lastUsedAt = new Date(Date.now() - 200_000).toISOString()
    admin.answers(
      says(200, { key: keyJson({ lastUsedAt }) }),
      says(200, { key: revoked, committedAt: null, announced: true, gateways: null }),
    )
    const terminal = new Terminal(REVOKE, admin.env, { redirect })
    await terminal.shows('Revoke it? [y/N]')
    return terminal
  }

  test('the question names the key and its last use, and y revokes it', async () => {
    const terminal = await untilAsked()
    for (const fact of ['billing importer', 'ws_1', 'files:read workspace:read', 'active', '3 minutes ago']) {
      expect(terminal.shown).toContain(fact)
    }
    terminal.type('y\r')
    expect(await terminal.exited).toBe(0)
    expect(terminal.shown).toContain(`Revoked ${ID}`)
    expect(asked()).toEqual(['GET', 'POST'])
  })

  test.each([
    ['nothing', '\r', 1],
    ['the end of input', CTRL_D, 1],
    ['Ctrl-C', CTRL_C, 130],
  ])('%s revokes nothing', async (_, keys, code) => {
    const terminal = await untilAsked()
    terminal.type(keys)
    expect(await terminal.exited).toBe(code)
    expect(asked()).toEqual(['GET'])
  })

  test('the question goes to standard error; standard output holds the outcome alone', async () => {
    const terminal = await untilAsked('>/dev/null')
    terminal.type('y\r')
    expect(await terminal.exited).toBe(0)
    expect(terminal.shown).not.toContain('Revoked key_')
  })

  test('there is no question with --yes, nor for a key that is revoked or expired', async () => {
    admin.answers(says(200, { key: revoked, committedAt: null, announced: true, gateways: null }))
    expect(await new Terminal([...REVOKE, '--yes'], admin.env).exited).toBe(0)
    expect(asked()).toEqual(['POST'])
    expect(await new Terminal(REVOKE, admin.env).exited).toBe(0)
    expect(asked()).toEqual(['POST', 'GET', 'POST'])
  })

  test('there is no question if standard error is not a terminal', async () => {
    admin.answers(says(200, { key: keyJson() }))
    expect(await new Terminal(REVOKE, admin.env, { redirect: '2>/dev/null' }).exited).toBe(64)
    expect(asked()).toEqual([])
  })
})

describe.skipIf(!has(SCRIPT))('before all keys of a workspace are revoked at a terminal', () => {
  const REVOKE_ALL = ['keys', 'revoke-all', '--workspace', 'ws_1']
  const [none, one] = [says(200, { keys: [], total: 0 }), says(200, { keys: [keyJson()], total: 1 })]

  test.each([
    ['y\r', 0, ['GET', 'GET', 'GET', 'POST']],
    ['n\r', 1, ['GET', 'GET', 'GET']],
  ])('the question names their number, without reading each: %j', async (keys, code, requests) => {
    const many = says(200, { keys: [keyJson()], total: 20_000 })
    admin.answers(many, none, one, says(200, { revoked: 20_001, announced: true, gateways: null }))
    const terminal = new Terminal(REVOKE_ALL, admin.env)
    await terminal.shows('Revoke all 20001? [y/N]')
    expect(terminal.shown).toContain('20001 keys of workspace ws_1 would be revoked')
    terminal.type(keys)
    expect(await terminal.exited).toBe(code)
    expect(asked()).toEqual(requests)
  })

  test('keys that are too many to count are asked about, too', async () => {
    admin.answers(says(200, { keys: [keyJson()] }))
    const terminal = new Terminal(REVOKE_ALL, admin.env)
    await terminal.shows('Revoke all? [y/N]')
    expect(terminal.shown).toContain('Every key of workspace ws_1 would be revoked')
    terminal.type('n\r')
    expect(await terminal.exited).toBe(1)
  })

  test('there is a question also where none is found to work: one may be resumed while they are counted', async () => {
    admin.answers(none, none, none, says(200, { revoked: 1, announced: true, gateways: null }))
    const terminal = new Terminal(REVOKE_ALL, admin.env)
    await terminal.shows('Revoke all? [y/N]')
    expect(terminal.shown).toContain('No key of workspace ws_1 works now')
    terminal.type('n\r')
    expect(await terminal.exited).toBe(1)
    expect(asked()).toEqual(['GET', 'GET', 'GET'])
  })
})

describe.skipIf(!has(SCRIPT))('the table at a terminal', () => {
  async function shown(env: Record<string, string> = {}, columns = 200): Promise<string> {
    admin.answers(says(200, { keys: [keyJson()] }))
    const terminal = new Terminal(LIST, { ...admin.env, ...env }, { columns })
    expect(await terminal.exited).toBe(0)
    return terminal.shown
  }

  test('has colour', async () => {
    expect(await shown()).toContain('\x1b[32mactive\x1b[39m')
  })

  test.each([{ NO_COLOR: '1' }, { TERM: 'dumb' }])('has none with %o', async env => {
    expect(await shown(env)).not.toContain('\x1b')
  })

  test('fits the width of the terminal, one line for each key', async () => {
    for (const columns of [80, 200]) {
      const lines = (await shown({ NO_COLOR: '1' }, columns)).trim().split('\r\n')
      expect(lines).toHaveLength(2)
      for (const line of lines) expect(line.length).toBeLessThanOrEqual(columns)
    }
  })
})

describe.skipIf(!has(SCRIPT))('sync at a terminal', () => {
  test('shows a progress bar on standard error', async () => {
    admin.answers(says(200, { synced: 40, total: 100, cursor: 'a' }), says(200, { synced: 60, total: 100 }))
    const terminal = new Terminal(['keys', 'sync'], admin.env, { redirect: '>/dev/null' })
    expect(await terminal.exited).toBe(0)
    expect(terminal.shown).toMatch(/█+ 100 % \| 100 of 100 /)
  })

  test('Ctrl-C ends the command, and leaves the terminal as it was', async () => {
    admin.answers(says(200, { synced: 40, total: 100, cursor: 'a' }), () => {})
    const terminal = new Terminal(['keys', 'sync'], admin.env)
    await terminal.shows('40 of 100')
    terminal.type(CTRL_C)
    expect(await terminal.exited).toBe(130)
    expect(terminal.shown).not.toContain('\x1b[?')
  })
})
