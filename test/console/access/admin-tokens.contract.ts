import { beforeEach, describe, expect, test } from 'vitest'
import { type RunningConsole, startConsole } from '../../support/console.ts'
import { ManualClock } from '../../support/manual-clock.ts'

const DAY_MS = 86_400_000
const KEY = { name: 'importer', scopes: ['files:read'] }
const UNKNOWN_TOKEN = 'tok_01ARZ3NDEKTSV4RRFFQ69G5FAV'

/** What admin tokens do on every database. */
export function describeAdminTokens(name: string, freshUrl: () => Promise<string>): void {
  describe(`admin tokens in ${name}`, () => {
    let clock: ManualClock
    let running: RunningConsole
    beforeEach(async () => {
      clock = new ManualClock()
      running = await startConsole({ databaseUrl: await freshUrl(), parts: { clock } })
    })

    const as = (secret: string) => ({ headers: { authorization: `Bearer ${secret}` } })
    const issue = async (more: object = {}, by?: string) => {
      const body = { name: 'ci', permissions: ['keys:write'], expiresInDays: 30, ...more }
      return running.send('POST', '/admin/v1/tokens', body, by === undefined ? {} : as(by))
    }
    const secretOf = async (more: object = {}) => (await issue(more)).body.secret
    const status = async (secret: string, path = '/keys/key_01ARZ3NDEKTSV4RRFFQ69G5FAV') =>
      (await running.send('GET', `/admin/v1${path}`, undefined, as(secret))).status
    const listed = async (by?: string) => {
      const more = by === undefined ? {} : as(by)
      return (await running.send('GET', '/admin/v1/tokens', undefined, more)).body.tokens
    }

    test('are issued with their secret, which is shown once and stored as a digest', async () => {
      const { status: code, body } = await issue({ workspaces: ['ws_2', 'ws_1', 'ws_2'] })
      expect(code).toBe(201)
      expect(body.secret).toMatch(/^pat_[0-9A-Za-z]{54}$/)
      expect(body.token).toEqual({
        id: expect.stringMatching(/^tok_[0-9A-HJKMNP-TV-Z]{26}$/),
        name: 'ci',
        hint: `pat_…${body.secret.slice(-4)}`,
        permissions: ['keys:write'],
        workspaces: ['ws_1', 'ws_2'],
        createdAt: new Date(clock.wallMs()).toISOString(),
        createdBy: 'admin-token',
        expiresAt: new Date(clock.wallMs() + 30 * DAY_MS).toISOString(),
        revokedAt: null,
        lastUsedAt: null,
      })
      const [token] = await listed()
      expect(token).toEqual(body.token)
      const trail = await running.send('GET', '/admin/v1/audit')
      expect(trail.text + JSON.stringify(running.log)).not.toContain(body.secret.slice(4))
    })

    test('act under their own name, and the audit log says which', async () => {
      const { secret, token } = (await issue({ name: 'deploy' })).body
      const key = await running.send('POST', '/admin/v1/workspaces/ws_1/keys', KEY, as(secret))
      expect([key.status, key.body.key.createdBy]).toEqual([201, `token:${token.id}`])
      const { body } = await running.send('GET', '/admin/v1/audit')
      expect(body.entries.map(({ action, actor, keyId }) => [action, actor, keyId])).toEqual([
        ['key.issued', `token:${token.id}`, key.body.key.id],
        ['token.issued', 'admin-token', null],
      ])
      expect(body.entries[0]?.detail['by']).toBe('deploy')
      expect(body.entries[1]?.detail).toMatchObject({ tokenId: token.id, name: 'deploy', workspaces: 'all' })
    })

    test('allow what their permissions say, and nothing else', async () => {
      const paths = {
        'keys:read': '/workspaces/ws_1/keys',
        'audit:read': '/audit',
        'tokens:write': '/tokens',
      }
      for (const permission of ['keys:read', 'keys:write', 'audit:read', 'tokens:write']) {
        const secret = await secretOf({ permissions: [permission] })
        for (const [needed, path] of Object.entries(paths)) {
          const isAllowed = needed === permission || (needed === 'keys:read' && permission === 'keys:write')
          expect([permission, path, await status(secret, path)]).toEqual([
            permission,
            path,
            isAllowed ? 200 : 403,
          ])
        }
        const issued = await running.send('POST', '/admin/v1/workspaces/ws_1/keys', KEY, as(secret))
        expect([permission, issued.status]).toEqual([permission, permission === 'keys:write' ? 201 : 403])
      }
      const missing = await running.send('GET', '/admin/v1/tokens', undefined, as(await secretOf()))
      expect(missing.body).toEqual({
        code: 'forbidden',
        error: 'This call requires the permission tokens:write',
      })
    })

    test('see no other workspace: it is answered as if it were not there, also in lists', async () => {
      const all = ['keys:write', 'audit:read', 'tokens:write']
      const secret = await secretOf({ permissions: all, workspaces: ['ws_1'], name: 'of one workspace' })
      const foreign = (await running.send('POST', '/admin/v1/workspaces/ws_2/keys', KEY)).body.key.id
      const own = (await running.send('POST', '/admin/v1/workspaces/ws_1/keys', KEY)).body.key.id
      const wide = (await issue({ workspaces: ['ws_1', 'ws_2'] })).body.token.id
      const everywhere = (await issue({ workspaces: undefined })).body.token.id
      expect(await status(secret, '/workspaces/ws_2/keys')).toBe(404)
      expect(await status(secret, `/keys/${foreign}`)).toBe(404)
      expect(await status(secret, `/keys/${own}`)).toBe(200)
      expect((await listed(secret)).map(token => token.name)).toEqual(['of one workspace'])
      expect((await listed()).length).toBe(3)
      const revoke = (id: string) => running.send('POST', `/admin/v1/tokens/${id}/revoke`, {}, as(secret))
      for (const id of [wide, everywhere, UNKNOWN_TOKEN]) {
        const { status: code, body } = await revoke(id)
        expect([code, body]).toEqual([404, { code: 'not_found', error: 'No such token' }])
      }
      const audit = await running.send('GET', '/admin/v1/audit', undefined, as(secret))
      expect(audit.body.entries.map(entry => entry.keyId)).toEqual([own])
      for (const path of ['/audit/export']) expect(await status(secret, path)).toBe(403)
      expect((await running.send('POST', '/admin/v1/sync', {}, as(secret))).status).toBe(403)
    })

    test('cannot make a token with more rights than they have', async () => {
      const maker = await secretOf({ permissions: ['keys:read', 'tokens:write'], workspaces: ['ws_1'] })
      const wanted = { permissions: ['keys:read'], workspaces: ['ws_1'], expiresInDays: 10 }
      expect((await issue(wanted, maker)).status).toBe(201)
      for (const more of [
        { permissions: ['keys:write'] },
        { workspaces: ['ws_1', 'ws_2'] },
        { workspaces: undefined },
        { expiresInDays: 31 },
      ]) {
        const { status: code, body } = await issue({ ...wanted, ...more }, maker)
        expect([more, code, body.code]).toEqual([more, 403, 'forbidden'])
      }
      expect(await listed()).toHaveLength(2)
    })

    test('stop working when they are revoked, at once, and when they expire', async () => {
      const { secret, token } = (await issue()).body
      const short = await secretOf({ expiresInDays: 1 })
      expect([await status(secret), await status(short)]).toEqual([404, 404])
      const revoked = await running.send('POST', `/admin/v1/tokens/${token.id}/revoke`)
      expect([revoked.status, revoked.body.token.revokedAt]).toEqual([
        200,
        new Date(clock.wallMs()).toISOString(),
      ])
      const again = await running.send('POST', `/admin/v1/tokens/${token.id}/revoke`)
      expect(again.text).toBe(revoked.text)
      const refused = await running.send('GET', '/admin/v1/tokens', undefined, as(secret))
      expect([refused.status, refused.body.error]).toEqual([401, 'This token was revoked'])
      expect(refused.headers['www-authenticate']).toBe('Bearer realm="postern"')
      clock.advance(DAY_MS)
      const expired = await running.send('GET', '/admin/v1/tokens', undefined, as(short))
      expect([expired.status, expired.body.error]).toEqual([401, 'This token has expired'])
      const { body } = await running.send('GET', '/admin/v1/audit?action=token.revoked')
      expect(body.entries).toMatchObject([{ keyId: null, workspaceId: null, detail: { tokenId: token.id } }])
    })

    test('revoked twice at once are revoked once, and the audit log has one entry', async () => {
      const { token } = (await issue()).body
      const revoke = () => running.send('POST', `/admin/v1/tokens/${token.id}/revoke`)
      const [one, other] = await Promise.all([revoke(), revoke()])
      expect([one.status, one.body.token.revokedAt]).toEqual([200, new Date(clock.wallMs()).toISOString()])
      expect(other.text).toBe(one.text)
      const { body } = await running.send('GET', '/admin/v1/audit?action=token.revoked')
      expect(body.entries).toHaveLength(1)
    })

    test('say when they were used, to the minute, and without a write for each request', async () => {
      const { secret, token } = (await issue({ permissions: ['keys:read'] })).body
      const used = async () => (await listed()).find(({ id }) => id === token.id)?.lastUsedAt
      const atFirst = new Date(clock.wallMs()).toISOString()
      await Promise.all(Array.from({ length: 5 }, () => status(secret)))
      expect(await used()).toBe(atFirst)
      clock.advance(59_000)
      await status(secret)
      expect(await used()).toBe(atFirst)
      clock.advance(1000)
      await status(secret)
      expect(await used()).toBe(new Date(clock.wallMs()).toISOString())
    })

    test('are issued once for one Idempotency-Key', async () => {
      const body = { name: 'ci', permissions: ['keys:read'], expiresInDays: 1 }
      const repeat = { headers: { 'idempotency-key': 'once' } }
      const [first, again] = await Promise.all([
        running.send('POST', '/admin/v1/tokens', body, repeat),
        running.send('POST', '/admin/v1/tokens', body, repeat),
      ])
      expect([first.status, again.status]).toEqual([201, 201])
      expect(first.body.token).toEqual(again.body.token)
      const secrets = [first, again].map(answer => answer.body.secret)
      expect(secrets.filter(secret => secret === null)).toHaveLength(1)
      const replayed = [first, again].find(answer => answer.body.secret === null)
      const headers = [first, again].map(answer => answer.headers['idempotency-replayed'])
      expect(headers.toSorted()).toEqual(['true', undefined])
      expect(replayed?.headers['idempotency-replayed']).toBe('true')
      const other = await running.send('POST', '/admin/v1/tokens', { ...body, name: 'x' }, repeat)
      const error = 'This Idempotency-Key was used for a different request; use a new one'
      expect([other.status, other.body]).toEqual([422, { code: 'idempotency_mismatch', error }])
      expect(await listed()).toHaveLength(1)
    })

    test('are listed newest first, page by page', async () => {
      const names = ['a', 'b', 'c']
      for (const one of names) await issue({ name: one, workspaces: ['ws_1'] })
      const first = (await running.send('GET', '/admin/v1/tokens?limit=2')).body
      expect([first.tokens.map(token => token.name), first.hasMore]).toEqual([['c', 'b'], true])
      const last = (await running.send('GET', `/admin/v1/tokens?limit=2&cursor=${first.cursor}`)).body
      expect([last.tokens.map(token => token.name), last.hasMore, last.cursor]).toEqual([
        ['a'],
        false,
        undefined,
      ])
      const whole = (await running.send('GET', '/admin/v1/tokens?limit=3')).body
      expect([whole.tokens.length, whole.hasMore, whole.cursor]).toEqual([3, false, undefined])
      const one = (await running.send('GET', '/admin/v1/tokens?limit=1')).body
      const next = (await running.send('GET', `/admin/v1/tokens?limit=1&cursor=${one.cursor}`)).body
      expect([...one.tokens, ...next.tokens].map(token => token.name)).toEqual(['c', 'b'])
    })

    test.each<[object, string]>([
      [{ name: '' }, 'name must be'],
      [{ name: `pat_${'a'.repeat(54)}` }, 'name must be a name without an API key or token in it'],
      [{ name: `wsk_${'a'.repeat(54)}` }, 'name must be a name without an API key or token in it'],
      [{ permissions: [] }, 'permissions must be a list of at least one of keys:read, '],
      [{ permissions: ['keys:read', 'everything'] }, 'permissions must be'],
      [{ workspaces: [] }, 'workspaces must be a list of 1 to 1000 workspace ids'],
      [{ workspaces: ['..'] }, 'workspaces must be'],
      [{ expiresInDays: 0 }, 'expiresInDays must be'],
      [{ expiresInDays: 367 }, 'expiresInDays must be'],
      [{ expiresInDays: undefined }, 'expiresInDays must be'],
      [{ scopes: [] }, 'Unknown field scopes'],
    ])('are refused with %j', async (more, text) => {
      const { status: code, body } = await issue(more)
      expect([code, body.code, body.error]).toEqual([400, 'invalid_request', expect.stringContaining(text)])
    })
  })
}
