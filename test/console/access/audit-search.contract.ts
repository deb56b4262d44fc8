import { beforeEach, describe, expect, test } from 'vitest'
import { type RunningConsole, startConsole } from '../../support/console.ts'
import { ManualClock } from '../../support/manual-clock.ts'

const KEY = { name: 'importer', scopes: ['files:read'] }
const INSTANT = 'an instant such as 2027-02-18T09:00:00Z'
const ACTIONS = [
  ...[
    'key.issued',
    'key.rotated',
    'key.revoked',
    'key.suspended',
    'key.resumed',
    'key.edited',
    'key.imported',
  ],
  ...[
    'key.reported',
    'token.issued',
    'token.revoked',
    'person.signed_in',
    'person.signed_out',
    'access.refused',
  ],
  ...['database.restored', 'webhook.set', 'webhook.removed', 'workspace.plan_changed'],
].join(', ')

/** How the audit log is searched and exported, on every database. */
export function describeAuditSearch(name: string, freshUrl: () => Promise<string>): void {
  describe(`the audit log across workspaces in ${name}`, () => {
    let clock: ManualClock
    let running: RunningConsole
    beforeEach(async () => {
      clock = new ManualClock()
      running = await startConsole({ databaseUrl: await freshUrl(), parts: { clock } })
    })
    const send = (path: string, secret?: string) => {
      const more = secret === undefined ? {} : { headers: { authorization: `Bearer ${secret}` } }
      return running.send('GET', `/admin/v1/audit${path}`, undefined, more)
    }
    const issue = async (workspaceId: string) => {
      clock.advance(1000)
      return (await running.send('POST', `/admin/v1/workspaces/${workspaceId}/keys`, KEY)).body.key.id
    }
    const tokenFor = async (body: object) => {
      clock.advance(1000)
      const asked = { name: 'auditor', permissions: ['audit:read'], expiresInDays: 1, ...body }
      return (await running.send('POST', '/admin/v1/tokens', asked)).body
    }
    const found = async (query: string) =>
      (await send(query)).body.entries.map(({ action, workspaceId }) => [action, workspaceId])

    test('is newest first, and filtered by key, actor, action and time', async () => {
      const first = await issue('ws_1')
      const since = new Date(clock.wallMs() + 500).toISOString()
      await issue('ws_2')
      const { token, secret } = await tokenFor({ permissions: ['keys:write'] })
      clock.advance(1000)
      const headers = { authorization: `Bearer ${secret}` }
      await running.send('POST', `/admin/v1/keys/${first}/revoke`, {}, { headers })
      expect(await found('')).toEqual([
        ['key.revoked', 'ws_1'],
        ['token.issued', null],
        ['key.issued', 'ws_2'],
        ['key.issued', 'ws_1'],
      ])
      expect(await found(`?keyId=${first}`)).toEqual([
        ['key.revoked', 'ws_1'],
        ['key.issued', 'ws_1'],
      ])
      expect(await found(`?actor=token:${token.id}`)).toEqual([['key.revoked', 'ws_1']])
      expect(await found('?action=token.issued')).toEqual([['token.issued', null]])
      expect(await found(`?actor=admin-token&action=key.issued&from=${since}`)).toEqual([
        ['key.issued', 'ws_2'],
      ])
      expect(await found(`?to=${since}`)).toEqual([['key.issued', 'ws_1']])
      expect(await found(`?from=${since}&to=${since}`)).toEqual([])
      const exact = new Date(clock.wallMs()).toISOString()
      expect(await found(`?from=${exact}`)).toEqual([['key.revoked', 'ws_1']])
    })

    test('is paged, and new entries do not shift the pages', async () => {
      const ids: string[] = []
      for (let number = 0; number < 5; number++) ids.unshift(await issue(`ws_${number % 3}`))
      const seen: string[] = []
      let cursor = ''
      for (let page = 0; page < 3; page++) {
        const { body } = await send(`?action=key.issued&limit=2${cursor}`)
        seen.push(...body.entries.map(entry => entry.keyId))
        expect(body.hasMore).toBe(page < 2)
        if (page === 0) await issue('ws_1')
        cursor = `&cursor=${body.cursor}`
      }
      expect(seen).toEqual(ids)
    })

    test('shows a caller only the workspaces it may see, page by page', async () => {
      for (let number = 0; number < 9; number++) await issue(`ws_${number % 3}`)
      const { secret } = await tokenFor({ workspaces: ['ws_0', 'ws_1', 'ws_none'] })
      const seen: string[] = []
      let cursor = ''
      for (;;) {
        const { body } = await send(`?limit=4${cursor}`, secret)
        seen.push(...body.entries.map(entry => entry.workspaceId))
        if (!body.hasMore) break
        cursor = `&cursor=${body.cursor}`
      }
      expect(seen).toEqual(['ws_1', 'ws_0', 'ws_1', 'ws_0', 'ws_1', 'ws_0'])
      expect((await send('?action=token.issued', secret)).body.entries).toEqual([])
      expect((await send('/export', secret)).status).toBe(403)
    })

    test('nor the entries of a key elsewhere, also where the caller names the key', async () => {
      const [own, foreign] = [await issue('ws_1'), await issue('ws_2')]
      const { secret } = await tokenFor({ workspaces: ['ws_1'] })
      const of = async (keyId: string) =>
        (await send(`?keyId=${keyId}`, secret)).body.entries.map(entry => entry.keyId)
      expect([await of(own), await of(foreign)]).toEqual([[own], []])
    })

    test('also one that may see hundreds of workspaces', async () => {
      await issue('ws_250')
      const workspaces = Array.from({ length: 600 }, (_, number) => `ws_${number}`)
      const { secret } = await tokenFor({ workspaces })
      expect((await send('', secret)).body.entries).toMatchObject([{ workspaceId: 'ws_250' }])
    })

    test.each([
      ['?keyId=x', 'keyId must be a key id'],
      ['?action=key.made', `action must be one of ${ACTIONS}`],
      ['?from=yesterday', `from must be ${INSTANT}`],
      ['?from=2026-13-01T00:00:00Z', `from must be ${INSTANT}`],
      ['?to=2026-13-01T00:00:00Z', `to must be ${INSTANT}`],
      ['?to=2026-11-20T00:00:00', `to must be ${INSTANT}`],
      ['?from=2026-11-20T00:00:00.1234567890Z', `from must be ${INSTANT}`],
      ['?from=x2026-11-20T00:00:00Z', `from must be ${INSTANT}`],
      ['?from=2026-11-20T00:00:00Zx', `from must be ${INSTANT}`],
      ['?limit=0', 'limit must be a single whole number from 1 to 200'],
      ['?limit=201', 'limit must be a single whole number from 1 to 200'],
      ['?limit=x1', 'limit must be a single whole number from 1 to 200'],
      ['?limit=1x', 'limit must be a single whole number from 1 to 200'],
      ['?limit=01', 'limit must be a single whole number from 1 to 200'],
      ['?cursor=key_01ARZ3NDEKTSV4RRFFQ69G5FAV', 'cursor must be a single cursor from an earlier response'],
      ['?actor=a&actor=b', 'actor must be 1 to 300 characters'],
      ['?actor=', 'actor must be 1 to 300 characters'],
      [`?actor=${'a'.repeat(301)}`, 'actor must be 1 to 300 characters'],
      ['?workspace=ws_1', 'Unknown query parameter workspace'],
      ['/export?from=x', 'Unknown query parameter from'],
    ])('refuses %s', async (query, error) => {
      const { status, body } = await send(query)
      expect([status, body.code, body.error]).toEqual([400, 'invalid_request', error])
    })

    test.each([
      '?limit=1',
      '?limit=200',
      `?actor=${'a'.repeat(300)}`,
      '?from=2026-11-20T00:00:00.123Z&to=2026-11-20T01:00:00%2B01:00',
    ])('takes %s', async query => {
      expect((await send(query)).status).toBe(200)
    })

    test('is exported whole, one JSON object a line, with the chain', async () => {
      const ids = []
      for (let number = 0; number < 3; number++) ids.push(await issue('ws_1'))
      const { headers, text } = await send('/export')
      expect(headers['content-type']).toBe('application/x-ndjson; charset=utf-8')
      const lines = text.trimEnd().split('\n')
      const entries = lines.map(line => JSON.parse(line) as Record<string, unknown>)
      expect(entries.map(({ sequence, keyId }) => [sequence, keyId])).toEqual(
        ids.map((id, at) => [at + 1, id]),
      )
      expect(entries[0]).toMatchObject({
        actor: 'admin-token',
        action: 'key.issued',
        hash: expect.stringMatching(/^[0-9a-f]{64}$/),
        detail: { name: 'importer' },
      })
    })
  })
}
