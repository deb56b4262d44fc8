import { describe, expect, test } from 'vitest'
import { digestKey } from '../../src/domain/key/secret.ts'
import { type Answer, type RunningConsole, startConsole } from '../support/console.ts'

const KEYS = '/admin/v1/workspaces/ws_1/keys'
const AUDIT = '/admin/v1/workspaces/ws_1/audit'
const DAY_MS = 86_400_000
const HOUR_MS = 3_600_000
const request = { name: 'build server', scopes: ['workspace:read'] }
const START_MS = Date.parse('2026-11-20T09:00:00Z')

/**
 * What a program may rely on, whichever database is behind the console.
 * @param freshUrl the address of a database without rows
 * @param severalConsoles whether it is for more than one console in one process
 */
export function describeOperations(
  database: string,
  freshUrl: () => Promise<string>,
  severalConsoles: boolean,
): void {
  const started = async (url?: string) => {
    const time = { nowMs: START_MS }
    const clock = { wallMs: () => time.nowMs, monotonicMs: () => time.nowMs }
    const databaseUrl = url ?? (await freshUrl())
    const running = await startConsole({ databaseUrl, parts: { clock }, leaks: { enabled: true } })
    return { ...running, time }
  }
  const issue = async ({ send }: RunningConsole, change: object = {}) => {
    const { status, body } = await send('POST', KEYS, { ...request, ...change })
    expect(status).toBe(201)
    return body
  }
  const passTime = ({ time }: { time: { nowMs: number } }, ms: number) => {
    time.nowMs += ms
  }
  const rotate = ({ send }: RunningConsole, id: string, body?: object, headers = {}) =>
    send('POST', `/admin/v1/keys/${id}/rotate`, body, { headers })
  const revoke = ({ send }: RunningConsole, id: string, headers = {}) =>
    send('POST', `/admin/v1/keys/${id}/revoke`, undefined, { headers })
  const get = async ({ send }: RunningConsole, id: string) =>
    (await send('GET', `/admin/v1/keys/${id}`)).body.key
  const audit = async ({ send }: RunningConsole) => (await send('GET', AUDIT)).body.entries
  const statuses = (answers: readonly Answer[]) => answers.map(answer => answer.status).toSorted()

  describe(`rotating a key, in ${database}`, () => {
    test('issues a new key with the same scopes, and the old key works until the overlap ends', async () => {
      const running = await started()
      const { key: old } = await issue(running, { expiresInDays: 30 })
      running.time.nowMs += HOUR_MS
      const { status, body } = await rotate(running, old.id)
      expect(status).toBe(201)
      const { workspaceId, name, scopes } = old
      expect(body.key).toMatchObject({ workspaceId, name, scopes, rotatedFrom: old.id, replacedBy: null })
      expect(body.key).toMatchObject({ version: 1, state: 'active', expiresAt: '2027-02-18T10:00:00.000Z' })
      expect(body.secret).toMatch(/^wsk_[0-9A-Za-z]{54}$/)
      expect(body.key.hint).toBe(`wsk_…${body.secret.slice(-4)}`)
      const retiring = { expiresAt: '2026-11-21T10:00:00.000Z', replacedBy: body.key.id, version: 2 }
      expect(body.replaced).toEqual({ ...old, ...retiring, state: 'retiring' })
      expect(await get(running, old.id)).toEqual(body.replaced)
      running.time.nowMs += DAY_MS
      expect((await get(running, old.id)).state).toBe('expired')
      expect((await get(running, body.key.id)).state).toBe('active')
    })

    test('without overlap revokes the old key in the same transaction and audits both', async () => {
      const running = await started()
      const { key } = await issue(running)
      const { body } = await rotate(running, key.id, { overlapSeconds: 0, expiresInDays: 7 })
      const revokedAt = '2026-11-20T09:00:00.000Z'
      const ended = { state: 'revoked', revokedAt, expiresAt: revokedAt, replacedBy: body.key.id, version: 2 }
      expect(body.replaced).toEqual({ ...key, ...ended })
      expect(body.key.expiresAt).toBe('2026-11-27T09:00:00.000Z')
      expect(await get(running, key.id)).toEqual(body.replaced)
      expect(await audit(running)).toMatchObject([
        { action: 'key.revoked', keyId: key.id, detail: { reason: 'rotation', from: '127.0.0.1' } },
        { action: 'key.rotated', keyId: key.id, detail: { overlapSeconds: 0, successor: body.key.id } },
        { action: 'key.issued' },
      ])
      const again = await revoke(running, key.id)
      expect(again.body.key).toEqual(body.replaced)
      expect(await audit(running)).toHaveLength(3)
    })

    test('never extends the lifetime of the old key', async () => {
      const running = await started()
      const { key } = await issue(running, { expiresInDays: 1 / 24 })
      const { body } = await rotate(running, key.id, { overlapSeconds: 30 * 86_400 })
      expect(body.replaced.expiresAt).toBe(key.expiresAt)
    })

    test.each<
      [string, (running: RunningConsole & { time: { nowMs: number } }, id: string) => Promise<unknown>]
    >([
      ['retiring', (running, id) => rotate(running, id)],
      ['revoked', (running, id) => revoke(running, id)],
      ['expired', async running => passTime(running, 91 * DAY_MS)],
    ])('that is %s is refused, and changes nothing', async (state, become) => {
      const running = await started()
      const { key } = await issue(running)
      await become(running, key.id)
      const before = await get(running, key.id)
      const { status, body } = await rotate(running, key.id)
      expect({ status, code: body.code }).toEqual({ status: 409, code: 'conflict' })
      expect(body.error).toContain(state)
      expect(await get(running, key.id)).toEqual(before)
    })

    test('issues one new key for eight concurrent requests', async () => {
      const running = await started()
      const { key } = await issue(running)
      const answers = await Promise.all(Array.from({ length: 8 }, () => rotate(running, key.id)))
      expect(statuses(answers)).toEqual([201, ...Array(7).fill(409)])
      const { keys } = (await running.send('GET', KEYS)).body
      expect(keys).toHaveLength(2)
      expect((await audit(running)).map((entry: { action: string }) => entry.action)).toEqual([
        'key.rotated',
        'key.issued',
      ])
    })

    test('with a field that is wrong is refused by its name, and changes nothing', async () => {
      const running = await started()
      const { key } = await issue(running)
      const refused = [
        [{ overlapSeconds: -1 }, /^overlapSeconds must be/],
        [{ overlapSeconds: 30 * 86_400 + 1 }, /^overlapSeconds must be/],
        [{ overlapSeconds: '60' }, /^overlapSeconds must be/],
        [{ overlapSeconds: null }, /^overlapSeconds must be/],
        [{ expiresInDays: 0 }, /^expiresInDays must be/],
        [{ expiresInDays: 1, expiresAt: '2026-12-01T00:00:00Z' }, /^expiresAt must be absent/],
        [{ workspaceId: 'ws_2' }, /^Unknown field workspaceId$/],
        [{ scopes: ['files:read'] }, /^Unknown field scopes$/],
        [[], /^The body must be/],
      ] as const
      for (const [body, text] of refused) {
        const answer = await rotate(running, key.id, body)
        const { status, body: refusal } = answer
        expect({ body, status, code: refusal.code }).toEqual({ body, status: 400, code: 'invalid_request' })
        expect(refusal.error).toMatch(text)
        expect(await get(running, key.id)).toEqual(key)
      }
    })

    test('of what is no key is 404', async () => {
      const running = await started()
      for (const id of ['key_00000000000000000000000000', '__proto__', '%01']) {
        const { status, body } = await rotate(running, id)
        expect({ id, status, code: body.code }).toEqual({ id, status: 404, code: 'not_found' })
      }
    })
  })

  describe(`the audit log, in ${database}`, () => {
    test('lists actor, action, key, time and address, newest first, and never a secret', async () => {
      const running = await started()
      const { key, secret } = await issue(running)
      running.time.nowMs += 1000
      const rotated = (await rotate(running, key.id, { overlapSeconds: 60 }, { 'x-request-id': 'req-7' }))
        .body
      running.time.nowMs += 1000
      await revoke(running, rotated.key.id)
      await revoke(running, rotated.key.id)
      const { body, text } = await running.send('GET', AUDIT)
      const { name, scopes } = request
      const from = { from: '127.0.0.1', requestId: expect.any(String) }
      const by = { actor: 'admin-token', id: expect.stringMatching(/^audit_/), workspaceId: 'ws_1' }
      expect(body).toEqual({
        hasMore: false,
        entries: [
          {
            ...by,
            at: '2026-11-20T09:00:02.000Z',
            action: 'key.revoked',
            keyId: rotated.key.id,
            detail: { name, scopes, reason: 'request', ...from },
          },
          {
            ...by,
            at: '2026-11-20T09:00:01.000Z',
            action: 'key.rotated',
            keyId: key.id,
            detail: {
              name,
              scopes,
              overlapSeconds: 60,
              expiresAt: '2026-11-20T09:01:01.000Z',
              successor: rotated.key.id,
              successorExpiresAt: rotated.key.expiresAt,
              ...from,
              requestId: 'req-7',
            },
          },
          {
            ...by,
            at: '2026-11-20T09:00:00.000Z',
            action: 'key.issued',
            keyId: key.id,
            detail: { name, scopes, expiresAt: key.expiresAt, ...from },
          },
        ],
      })
      for (const part of [secret, rotated.secret, digestKey(secret)]) expect(text).not.toContain(part)
    })

    test('is paged by workspace, and new entries do not shift the pages', async () => {
      const running = await started()
      await running.send('POST', '/admin/v1/workspaces/ws_2/keys', request)
      const ids: string[] = []
      for (let index = 0; index < 5; index++) ids.unshift((await issue(running)).key.id)
      const seen: string[] = []
      let cursor = ''
      for (let page = 0; page < 3; page++) {
        const { body } = await running.send('GET', `${AUDIT}?limit=2${cursor}`)
        seen.push(...body.entries.map((entry: { keyId: string }) => entry.keyId))
        await issue(running)
        cursor = body.cursor === undefined ? '' : `&cursor=${body.cursor}`
      }
      expect(seen).toEqual(ids)
      expect(cursor).toBe('')
    })

    test('with a query that means nothing is refused', async () => {
      const running = await started()
      for (const query of ['limit=0', 'limit=201', 'cursor=key_00000000000000000000000000', 'keyId=a']) {
        const { status } = await running.send('GET', `${AUDIT}?${query}`)
        expect({ query, status }).toEqual({ query, status: 400 })
      }
    })
  })

  describe(`a request repeated with its Idempotency-Key, in ${database}`, () => {
    const again = { 'idempotency-key': 'deploy-2026-11-20/1' }

    test('issues no second key: the response is the same, without the secret', async () => {
      const running = await started()
      const send = (body: object) => running.send('POST', KEYS, body, { headers: again })
      const first = await send(request)
      expect(first.headers['idempotency-replayed']).toBeUndefined()
      running.time.nowMs += 24 * HOUR_MS - 1
      const second = await send({ scopes: request.scopes, name: request.name })
      expect(second.status).toBe(201)
      expect(second.body).toEqual({ ...first.body, secret: null })
      expect(second.headers['idempotency-replayed']).toBe('true')
      expect((await running.send('GET', KEYS)).body.keys).toHaveLength(1)
      expect(await audit(running)).toHaveLength(1)
      running.time.nowMs += 1
      const dayLater = await send(request)
      expect(dayLater.body.key.id).not.toBe(first.body.key.id)
      expect(dayLater.body.secret).toMatch(/^wsk_/)
    })

    test('does not rotate a second time, although the key is already retiring', async () => {
      const running = await started()
      const { key } = await issue(running)
      const first = await rotate(running, key.id, {}, again)
      const second = await rotate(running, key.id, undefined, again)
      expect({ status: second.status, body: second.body }).toEqual({
        status: 201,
        body: { ...first.body, secret: null },
      })
    })

    test('rotates without overlap once: the response again shows the old key as revoked', async () => {
      const running = await started()
      const { key } = await issue(running)
      const first = await rotate(running, key.id, { overlapSeconds: 0 }, again)
      const second = await rotate(running, key.id, { overlapSeconds: 0 }, again)
      expect(second.status).toBe(201)
      expect(second.body).toEqual({ ...first.body, secret: null, announcedAt: null })
      expect(await audit(running)).toHaveLength(3)
    })

    test('revokes once, also if the key was already revoked', async () => {
      const running = await started()
      const { key } = await issue(running)
      await revoke(running, key.id)
      const first = await revoke(running, key.id, again)
      expect(first.headers['idempotency-replayed']).toBeUndefined()
      const second = await revoke(running, key.id, again)
      expect(second.body).toEqual(first.body)
      expect(second.headers['idempotency-replayed']).toBe('true')
    })

    test('by another token is another request: each token gets a key, with its secret', async () => {
      const running = await started()
      const token = { permissions: ['keys:write'], expiresInDays: 1 }
      const send = async (name: string) => {
        const { secret } = (await running.send('POST', '/admin/v1/tokens', { ...token, name })).body
        const headers = { ...again, authorization: `Bearer ${secret}` }
        return running.send('POST', KEYS, request, { headers })
      }
      const [one, other] = [await send('one'), await send('other')]
      expect([other.status, other.headers['idempotency-replayed']]).toEqual([201, undefined])
      expect(other.body.secret).toMatch(/^wsk_/)
      expect(other.body.key.id).not.toBe(one.body.key.id)
    })

    test.each<[string, string, object]>([
      ['another body', KEYS, { ...request, name: 'another' }],
      ['another workspace', '/admin/v1/workspaces/ws_2/keys', request],
    ])('but with %s is refused, and does nothing', async (_, url, body) => {
      const running = await started()
      await running.send('POST', KEYS, request, { headers: again })
      const { status, body: refusal } = await running.send('POST', url, body, { headers: again })
      expect({ status, code: refusal.code }).toEqual({ status: 422, code: 'idempotency_mismatch' })
      expect((await running.send('GET', url)).body.keys).toHaveLength(url === KEYS ? 1 : 0)
    })

    test('is rejected for another operation', async () => {
      const running = await started()
      const { key } = await issue(running)
      await rotate(running, key.id, undefined, again)
      expect((await revoke(running, key.id, again)).status).toBe(422)
    })

    test('takes effect once for ten concurrent requests, which all get the same response', async () => {
      const running = await started()
      const { key } = await issue(running)
      const sends = [
        () => running.send('POST', KEYS, request, { headers: again }),
        () => rotate(running, key.id, undefined, { 'idempotency-key': 'rotate' }),
        () => revoke(running, key.id, { 'idempotency-key': 'revoke' }),
      ]
      for (const send of sends) {
        const answers = await Promise.all(Array.from({ length: 10 }, send))
        expect(new Set(answers.map(answer => answer.body.key.id)).size).toBe(1)
        expect(new Set(answers.map(answer => answer.status)).size).toBe(1)
        expect(answers.filter(answer => answer.headers['idempotency-replayed'] === undefined)).toHaveLength(1)
        const secrets = answers.flatMap(answer => answer.body.secret ?? [])
        expect(secrets.length).toBeLessThanOrEqual(1)
      }
      expect(await audit(running)).toHaveLength(4)
    })

    test('can be sent again after an error, which changed nothing', async () => {
      const running = await started()
      const refused = await running.send(
        'POST',
        KEYS,
        { ...request, scopes: ['no:such'] },
        { headers: again },
      )
      expect(refused.status).toBe(400)
      expect((await running.send('POST', KEYS, request, { headers: again })).status).toBe(201)
    })

    test('is refused where that is not 1 to 255 visible characters', async () => {
      const running = await started()
      for (const sent of ['', 'a b', 'ü', 'x'.repeat(256)]) {
        const headers = { 'idempotency-key': sent }
        const { status, body } = await running.send('POST', KEYS, request, { headers })
        expect({ sent, status, code: body.code }).toEqual({ sent, status: 400, code: 'invalid_request' })
        expect(body.error).toMatch(/^Idempotency-Key must be 1 to 255/)
      }
    })
  })

  describe(`a report of a leaked key, in ${database}`, () => {
    test('revokes it once, and is noted for a key that has ended; the newest report is first', async () => {
      const running = await started()
      const { key, secret } = await issue(running)
      const ended = await issue(running)
      await revoke(running, ended.key.id)
      const report = (token: string, url: string) =>
        running.app.inject({ method: 'POST', url: '/leaks/report', payload: { token, url } })
      for (const place of ['a', 'a', 'b']) {
        await Promise.all([report(secret, place), report(ended.secret, place)])
        passTime(running, 1000)
      }
      const leaksOf = async (id: string) =>
        (await running.send('GET', `/admin/v1/audit?keyId=${id}`)).body.entries
          .filter(({ detail }) => detail['reason'] === 'leak')
          .map(({ action, detail }) => [action, detail['foundAt']])
      expect(await leaksOf(key.id)).toEqual([
        ['key.reported', 'b'],
        ['key.revoked', 'a'],
      ])
      expect(await leaksOf(ended.key.id)).toEqual([
        ['key.reported', 'b'],
        ['key.reported', 'a'],
      ])
      expect(await get(running, key.id)).toMatchObject({ state: 'revoked', version: 2 })
      expect(await get(running, ended.key.id)).toMatchObject({ state: 'revoked', version: 2 })
    })

    const testSeveral = severalConsoles ? test : () => {}
    testSeveral('is noted once, also if two consoles get it at the same time', async () => {
      const url = await freshUrl()
      const first = await started(url)
      const consoles = [first, await started(url)]
      const { key, secret } = await issue(first)
      await revoke(first, key.id)
      const places = ['a', 'b', 'c', 'd', 'e', 'f']
      for (const place of places) {
        const payload = { token: secret, url: place }
        await Promise.all(
          consoles.map(({ app }) => app.inject({ method: 'POST', url: '/leaks/report', payload })),
        )
      }
      const { entries } = (await first.send('GET', `/admin/v1/audit?keyId=${key.id}`)).body
      const noted = entries.filter(({ action }) => action === 'key.reported')
      expect(noted.map(({ detail }) => detail['foundAt']).toSorted()).toEqual(places)
    })
  })

  describe(`the last use of a key, in ${database}`, () => {
    let gateways = 0
    /** Each from another gateway. */
    const report = ({ send }: RunningConsole, used: object) =>
      send('POST', '/internal/v1/usage', { gateway: `gateway-${++gateways}`, sequence: 1, used })

    test('is reported by gateways, moves forward only, by the second, and does not change the key’s version', async () => {
      const running = await started()
      const { key } = await issue(running)
      running.time.nowMs += HOUR_MS
      let nowMs = running.time.nowMs
      const lastUse = async () => (await get(running, key.id)).lastUsedAt
      expect(await lastUse()).toBeNull()
      const reported = async (ms: number) => {
        expect((await report(running, { [key.id]: ms })).status).toBe(200)
        const at = await lastUse()
        return Date.parse(at) - nowMs
      }
      // Gateways report every 10 s.
      const later = () => {
        running.time.nowMs += 10_000
        nowMs = running.time.nowMs
      }
      expect(await reported(nowMs - 300_000)).toBe(-300_000)
      later()
      expect(await reported(nowMs - 400_000)).toBe(-310_000)
      later()
      expect(await reported(nowMs - 320_000 + 999)).toBe(-320_000)
      later()
      expect(await reported(nowMs - 329_000)).toBe(-329_000)
      later()
      expect(await reported(nowMs + DAY_MS)).toBe(0)
      expect(await get(running, key.id)).toEqual({ ...key, lastUsedAt: new Date(nowMs).toISOString() })
      expect((await running.send('GET', KEYS)).body.keys[0]?.lastUsedAt).toBe(new Date(nowMs).toISOString())
    })

    test('is never before the key’s creation, although gateways report whole minutes', async () => {
      const running = await started()
      running.time.nowMs += 45_000
      const { key } = await issue(running)
      await report(running, { [key.id]: START_MS })
      expect((await get(running, key.id)).lastUsedAt).toBe(key.createdAt)
    })

    test('is recorded for 10,000 keys in one report; unknown ids are ignored', async () => {
      const running = await started()
      const { key } = await issue(running)
      const stranger = (index: number) => `key_${String(index).padStart(26, '0')}`
      const others = Object.fromEntries(
        Array.from({ length: 9998 }, (_, index) => [stranger(index), START_MS]),
      )
      const { status } = await report(running, { ...others, 'a\u0001b': START_MS, [key.id]: START_MS })
      expect(status).toBe(200)
      expect((await get(running, key.id)).lastUsedAt).toBe('2026-11-20T09:00:00.000Z')
    })

    test('is recorded from two concurrent reports with the keys in different order', async () => {
      const running = await started()
      const keys = await Promise.all(Array.from({ length: 20 }, () => issue(running)))
      const ids: string[] = keys.map(({ key }) => key.id)
      const used = (order: readonly string[]) => Object.fromEntries(order.map(id => [id, START_MS]))
      const answers = await Promise.all(
        Array.from({ length: 10 }, (_, index) =>
          report(running, used(index % 2 === 0 ? ids : ids.toReversed())),
        ),
      )
      expect(new Set(statuses(answers))).toEqual(new Set([200]))
    })

    test('is refused by itself where it is no time', async () => {
      const running = await started()
      for (const [index, time] of [-1, 'now', 1.5, null].entries()) {
        const { key } = await issue(running)
        const body = { gateway: 'gateway-1', sequence: index + 1, used: { [key.id]: time } }
        const { status, body: answer } = await running.send('POST', '/internal/v1/usage', body)
        const first = [{ list: 'used', index: 0, error: 'must be whole milliseconds since the epoch' }]
        expect([time, status, answer]).toEqual([time, 200, { refused: 1, requests: 0, first }])
      }
    })

    test('is refused in another form', async () => {
      const running = await started()
      const numbered = { gateway: 'gateway-1', sequence: 1 }
      for (const body of [{}, { ...numbered, used: [] }, { ...numbered, used: { key_1: 1 }, more: 1 }]) {
        const { status, body: refusal } = await running.send('POST', '/internal/v1/usage', body)
        expect({ body, status, code: refusal.code }).toEqual({ body, status: 400, code: 'invalid_request' })
      }
    })
  })

  describe(`a lookup of many keys, in ${database}`, () => {
    const lookUpKey = ({ send }: RunningConsole, digests: unknown) =>
      send('POST', '/internal/v1/lookups', { digests })

    test('returns the same record as a single lookup for each key, and null for unknown keys', async () => {
      const running = await started()
      const digests = [digestKey((await issue(running)).secret), digestKey((await issue(running)).secret)]
      const unknown = '0'.repeat(64)
      const single = async (digest: string) => (await running.send('GET', `/internal/v1/keys/${digest}`)).body
      const { status, headers, body } = await lookUpKey(running, [...digests, unknown, unknown])
      expect(status).toBe(200)
      expect(headers['content-type']).toBe('application/json; charset=utf-8')
      const [first = '', second = ''] = digests
      expect(body).toEqual({
        records: { [first]: await single(first), [second]: await single(second), [unknown]: null },
      })
    })

    test('is refused where the list is not one of 1 to 256 digests', async () => {
      const running = await started()
      for (const digests of [
        [],
        ['0'.repeat(63)],
        ['A'.repeat(64)],
        '0'.repeat(64),
        Array.from({ length: 257 }, (_, index) => String(index).padStart(64, '0')),
      ]) {
        const { status, body } = await lookUpKey(running, digests)
        expect({ digests, status, code: body.code }).toEqual({
          digests,
          status: 400,
          code: 'invalid_request',
        })
      }
    })

    test('and a usage report require the key service’s token', async () => {
      const { send } = await started()
      for (const path of ['/internal/v1/lookups', '/internal/v1/usage']) {
        const headers = { authorization: 'Bearer admin-token-of-the-tests' }
        expect((await send('POST', path, {}, { headers })).status).toBe(401)
      }
    })
  })

  test(`a registry in ${database} gives concurrently issued keys different hints`, async () => {
    // Few keys can be generated, and each has one hint: many of them are the same.
    const randomBytes = (size: number) => {
      const bytes = new Uint8Array(size)
      bytes.set(size < 2 ? [Math.random() * 256] : [0, Math.random() * 64], Math.max(0, size - 2))
      return bytes
    }
    const { send } = await startConsole({ databaseUrl: await freshUrl(), parts: { randomBytes } })
    const answers = await Promise.all(Array.from({ length: 12 }, () => send('POST', KEYS, request)))
    const hints = answers.flatMap(answer => (answer.status === 201 ? [answer.body.key.hint] : []))
    expect(new Set(hints).size).toBe(hints.length)
    expect(hints.length).toBeGreaterThan(1)
  })

  const describeSeveral = severalConsoles ? describe : () => {}
  describeSeveral(`two consoles on ${database}`, () => {
    const two = async () => {
      const url = await freshUrl()
      return [await started(url), await started(url)] as const
    }

    test('issue one new key for eight concurrent rotations', async () => {
      const [a, b] = await two()
      for (let round = 0; round < 5; round++) {
        const { key } = await issue(a)
        const answers = await Promise.all(
          Array.from({ length: 8 }, (_, index) => rotate(index % 2 ? a : b, key.id)),
        )
        expect(statuses(answers)).toEqual([201, ...Array(7).fill(409)])
        const winner = answers.find(answer => answer.status === 201)?.body
        expect(await get(b, key.id)).toEqual(winner?.replaced)
      }
    })

    test('apply a request once that both receive at the same time', async () => {
      const consoles = await two()
      for (let round = 0; round < 5; round++) {
        const headers = { 'idempotency-key': `round-${round}` }
        const answers = await Promise.all(
          Array.from({ length: 8 }, (_, index) =>
            consoles[index % 2 ? 1 : 0].send('POST', KEYS, request, { headers }),
          ),
        )
        expect(new Set(statuses(answers))).toEqual(new Set([201]))
        expect(new Set(answers.map(answer => answer.body.key.id)).size).toBe(1)
        expect(answers.filter(answer => answer.body.secret !== null)).toHaveLength(1)
        const other = await consoles[1].send('POST', KEYS, { ...request, name: 'other' }, { headers })
        expect(other.status).toBe(422)
      }
      expect(await audit(consoles[0])).toHaveLength(5)
    })

    test('leave the key revoked if one revokes and the other rotates it', async () => {
      const [a, b] = await two()
      for (let round = 0; round < 10; round++) {
        const { key } = await issue(a)
        const [revocation, rotation] = await Promise.all([revoke(a, key.id), rotate(b, key.id)])
        expect(revocation.status).toBe(200)
        const after = await get(b, key.id)
        expect(after.state).toBe('revoked')
        expect(after.version).toBe(rotation.status === 201 ? 3 : 2)
      }
    })
  })
}
