import { describe, expect, test } from 'vitest'
import { type RunningConsole, startConsole } from '../support/console.ts'

const KEYS = '/admin/v1/workspaces/ws_1/keys'
const AUDIT = '/admin/v1/workspaces/ws_1/audit'
const START_MS = Date.parse('2026-11-20T09:00:00Z')
const DAY_MS = 86_400_000
const request = { name: 'build server', scopes: ['workspace:read'] }

/**
 * Suspending, resuming and editing a key, whichever database is behind the console.
 * @param freshUrl the address of a database without rows
 */
export function describeKeyChanges(database: string, freshUrl: () => Promise<string>): void {
  const started = async () => {
    const time = { nowMs: START_MS }
    const clock = { wallMs: () => time.nowMs, monotonicMs: () => time.nowMs }
    return { ...(await startConsole({ databaseUrl: await freshUrl(), parts: { clock } })), time }
  }
  const issue = async ({ send }: RunningConsole, change: object = {}) => {
    const { status, body } = await send('POST', KEYS, { ...request, ...change })
    expect(status).toBe(201)
    return body.key
  }
  const step = ({ send }: RunningConsole, id: string, name: string, headers = {}) =>
    send('POST', `/admin/v1/keys/${id}/${name}`, undefined, { headers })
  const edit = ({ send }: RunningConsole, id: string, body: unknown, version: number | string | null) =>
    send('PATCH', `/admin/v1/keys/${id}`, body, {
      headers: version === null ? {} : { 'if-match': typeof version === 'string' ? version : `"${version}"` },
    })
  const get = async ({ send }: RunningConsole, id: string) =>
    (await send('GET', `/admin/v1/keys/${id}`)).body.key
  const audit = async ({ send }: RunningConsole) => (await send('GET', AUDIT)).body.entries
  const actions = async (running: RunningConsole) =>
    (await audit(running)).map((entry: { action: string }) => entry.action)

  describe(`suspending and resuming a key, in ${database}`, () => {
    test('refuses it until it is resumed, and audits both', async () => {
      const running = await started()
      const key = await issue(running)
      running.time.nowMs += 1000
      const suspended = await step(running, key.id, 'suspend')
      expect(suspended.status).toBe(200)
      const suspendedAt = '2026-11-20T09:00:01.000Z'
      expect(suspended.body.key).toEqual({ ...key, state: 'suspended', suspendedAt, version: 2 })
      expect(suspended.body).toMatchObject({ committedAt: suspendedAt, announced: false })
      expect(suspended.body.gateways).toEqual({ known: 0, confirmed: 0, verifying: 0, silent: [] })
      const resumed = await step(running, key.id, 'resume')
      expect(resumed.body.key).toEqual({ ...key, version: 3 })
      expect(resumed.body.gateways).toEqual(suspended.body.gateways)
      expect(await audit(running)).toMatchObject([
        { action: 'key.resumed', keyId: key.id, detail: { name: request.name, from: '127.0.0.1' } },
        { action: 'key.suspended', keyId: key.id, detail: { name: request.name, from: '127.0.0.1' } },
        { action: 'key.issued' },
      ])
    })

    test('again changes nothing', async () => {
      const running = await started()
      const { id } = await issue(running)
      const first = await step(running, id, 'suspend')
      running.time.nowMs += 1000
      const second = await step(running, id, 'suspend')
      expect(second.status).toBe(200)
      expect(second.body).toEqual({ ...first.body, announcedAt: null })
      await step(running, id, 'resume')
      const again = await step(running, id, 'resume')
      expect(again.body).toMatchObject({ key: { version: 3, state: 'active' }, committedAt: null })
      expect(await actions(running)).toEqual(['key.resumed', 'key.suspended', 'key.issued'])
    })

    test('leaves its expiry: a suspended key expires on time, for good', async () => {
      const running = await started()
      const { id } = await issue(running, { expiresInDays: 1 })
      await step(running, id, 'suspend')
      running.time.nowMs += DAY_MS
      expect((await get(running, id)).state).toBe('expired')
      const { status, body } = await step(running, id, 'resume')
      expect({ status, code: body.code, error: body.error }).toEqual({
        status: 409,
        code: 'conflict',
        error: 'The key is expired, which is final; issue a new key',
      })
    })

    test('works for a retiring key, which is retiring again afterwards', async () => {
      const running = await started()
      const { id } = await issue(running)
      await step(running, id, 'rotate')
      expect((await step(running, id, 'suspend')).body.key.state).toBe('suspended')
      expect((await step(running, id, 'resume')).body.key.state).toBe('retiring')
    })

    test('a suspended key cannot be rotated, and can be revoked for good', async () => {
      const running = await started()
      const { id } = await issue(running)
      await step(running, id, 'suspend')
      const rotation = await step(running, id, 'rotate')
      expect([rotation.status, rotation.body.error]).toEqual([409, expect.stringContaining('suspended')])
      expect((await step(running, id, 'revoke')).body.key).toMatchObject({
        state: 'revoked',
        suspendedAt: null,
      })
      for (const name of ['suspend', 'resume']) {
        const { status, body } = await step(running, id, name)
        expect([status, body.error]).toEqual([409, 'The key is revoked, which is final; issue a new key'])
      }
      expect(await actions(running)).toEqual(['key.revoked', 'key.suspended', 'key.issued'])
    })

    test('repeated with its Idempotency-Key gives the first answer', async () => {
      const running = await started()
      const { id } = await issue(running)
      const headers = { 'idempotency-key': 'once' }
      const first = await step(running, id, 'suspend', headers)
      await step(running, id, 'resume')
      const second = await step(running, id, 'suspend', headers)
      expect(second.headers['idempotency-replayed']).toBe('true')
      expect(second.body.key).toEqual(first.body.key)
      expect((await get(running, id)).state).toBe('active')
      expect((await step(running, id, 'resume', headers)).status).toBe(422)
    })

    test.each(['suspend', 'resume'])('of a key that does not exist is 404: %s', async name => {
      expect((await step(await started(), 'key_00000000000000000000000000', name)).status).toBe(404)
    })
  })

  describe(`editing a key, in ${database}`, () => {
    test('changes the fields that are given, and audits old and new values', async () => {
      const running = await started()
      const key = await issue(running, { description: 'nightly' })
      const change = { name: 'importer', description: null, allowedCidrs: ['10.1.1.1/8', '::1'] }
      const { status, headers, body } = await edit(running, key.id, change, 1)
      expect(status).toBe(200)
      expect(headers['etag']).toBe('"2"')
      const allowedCidrs = ['10.0.0.0/8', '::1/128']
      expect(body.key).toEqual({ ...key, ...change, allowedCidrs, version: 2 })
      expect(body.committedAt).toBe('2026-11-20T09:00:00.000Z')
      expect(await get(running, key.id)).toEqual(body.key)
      expect((await audit(running))[0]).toMatchObject({
        action: 'key.edited',
        keyId: key.id,
        detail: {
          name: 'importer',
          changes: {
            name: { old: 'build server', new: 'importer' },
            description: { old: 'nightly', new: null },
            allowedCidrs: { old: [], new: allowedCidrs },
          },
        },
      })
    })

    test('can end a key earlier, never later', async () => {
      const running = await started()
      const key = await issue(running, { expiresInDays: 2 })
      const expiresAt = '2026-11-21T09:00:00.000Z'
      expect((await edit(running, key.id, { expiresAt }, 1)).body.key.expiresAt).toBe(expiresAt)
      const later = await edit(running, key.id, { expiresAt: key.expiresAt }, 2)
      expect(later.body).toMatchObject({ code: 'invalid_request', field: 'expiresAt' })
      expect(later.body.error).toMatch(/^expiresAt must be an instant .* no later than the present expiry$/)
      running.time.nowMs += DAY_MS
      expect((await get(running, key.id)).state).toBe('expired')
      expect((await edit(running, key.id, { name: 'x' }, 2)).status).toBe(409)
    })

    test('needs the version that was read, and says what to do', async () => {
      const running = await started()
      const { id } = await issue(running)
      expect((await running.send('GET', `/admin/v1/keys/${id}`)).headers['etag']).toBe('"1"')
      const without = await edit(running, id, { name: 'a' }, null)
      expect([without.status, without.body.code, without.body.field]).toEqual([
        428,
        'precondition_required',
        'If-Match',
      ])
      await edit(running, id, { name: 'first' }, 1)
      const { status, headers, body } = await edit(running, id, { name: 'second' }, 1)
      expect([status, body.code, headers['etag']]).toEqual([412, 'precondition_failed', '"2"'])
      expect(body.error).toContain('Read it again')
      expect(body.error).toContain('If-Match: "2"')
      expect((await get(running, id)).name).toBe('first')
    })

    /** Of one console: each start takes longer than all of them. */
    const IF_MATCH: readonly (readonly [header: string, status: number])[] = [
      ['"1"', 200],
      ['W/"1"', 200],
      ['*', 200],
      ['"2", "1"', 200],
      ['"a,b" , W/"1"', 200],
      [', "1",', 200],
      ['"1-gzip"', 200],
      ['"2"', 412],
      ['W/"2"', 412],
      ['"01"', 412],
      ['"x"', 412],
      ['""', 412],
      ['"1 "', 400],
      ['1', 400],
      ['"1" "2"', 400],
      ['"1', 400],
      ['*, "1"', 400],
      ['', 400],
    ]
    test('with each form of If-Match changes the key if it is answered 200, and says 412 or 400 otherwise', async () => {
      const running = await started()
      for (const [header, expected] of IF_MATCH) {
        const { id } = await issue(running)
        const { status, body } = await edit(running, id, { name: 'a' }, header)
        const field = expected === 200 ? undefined : 'If-Match'
        expect([header, status, body.field]).toEqual([header, expected, field])
        expect((await get(running, id)).name, header).toBe(expected === 200 ? 'a' : request.name)
      }
    })

    test('of eight at the same time takes effect once', async () => {
      const running = await started()
      const { id } = await issue(running)
      const names = Array.from({ length: 8 }, (_, index) => `edit ${index}`)
      const answers = await Promise.all(names.map(name => edit(running, id, { name }, 1)))
      expect(answers.map(answer => answer.status).toSorted()).toEqual([200, ...Array(7).fill(412)])
      expect(await get(running, id)).toMatchObject({ version: 2 })
    })

    test('with nothing new is no new version', async () => {
      const running = await started()
      const key = await issue(running)
      for (const body of [{}, { name: key.name, allowedCidrs: [], description: null }]) {
        const answer = await edit(running, key.id, body, 1)
        expect([answer.status, answer.body.key]).toEqual([200, key])
      }
      expect(await actions(running)).toEqual(['key.issued'])
    })

    const WRONG: readonly (readonly [body: unknown, field: string | undefined])[] = [
      [{ name: '' }, 'name'],
      [{ name: null }, 'name'],
      [{ description: 'a\nb' }, 'description'],
      [{ description: 5 }, 'description'],
      [{ expiresAt: '2026-11-20T09:00:00Z' }, 'expiresAt'],
      [{ expiresAt: null }, 'expiresAt'],
      [{ allowedCidrs: ['10.0.0.0/33'] }, 'allowedCidrs'],
      [{ allowedCidrs: '10.0.0.0/8' }, 'allowedCidrs'],
      [{ allowedCidrs: Array(33).fill('10.0.0.1') }, 'allowedCidrs'],
      [{ scopes: ['files:read'] }, 'scopes'],
      [[], undefined],
    ]
    test('with a wrong value is refused by the name of the field', async () => {
      const running = await started()
      const { id } = await issue(running)
      for (const [wrong, field] of WRONG) {
        const { status, body } = await edit(running, id, wrong, 1)
        expect([wrong, status, body.code, body.field]).toEqual([wrong, 400, 'invalid_request', field])
      }
      expect((await get(running, id)).version).toBe(1)
    })

    test('a rotation copies description and networks', async () => {
      const running = await started()
      const chosen = { description: 'nightly', allowedCidrs: ['192.0.2.0/24'] }
      const { id } = await issue(running, chosen)
      expect((await step(running, id, 'rotate')).body).toMatchObject({ key: chosen, replaced: chosen })
    })
  })

  test(`a key answers HEAD as GET, without a body, in ${database}`, async () => {
    const running = await started()
    const { id } = await issue(running)
    for (const url of [`/admin/v1/keys/${id}`, KEYS, AUDIT]) {
      const [head, answer] = [await running.send('HEAD', url), await running.send('GET', url)]
      expect([head.status, head.text]).toEqual([200, ''])
      expect(head.headers['content-length']).toBe(answer.headers['content-length'])
      expect(head.headers['etag']).toBe(answer.headers['etag'])
    }
  })
}
