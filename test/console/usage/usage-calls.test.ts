import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { describe, expect, test } from 'vitest'
import { ADMIN_TOKEN, type ConsoleOptions, startConsole } from '../../support/console.ts'
import { metricValue } from '../../support/metric-value.ts'
import { databaseDirectory } from '../../support/temporary-directory.ts'

const USAGE = '/internal/v1/usage'
const UNKNOWN_KEY = `key_${'0'.repeat(26)}`

interface UsageBody {
  readonly step: string
  readonly from: string
  readonly to: string
  readonly usage: readonly { at: string; requests: number; byCode: object; byRoute: object }[]
}
interface RefusalsBody {
  readonly refusals: readonly { requestId: string; keyId: string; reason: string }[]
  readonly sampled: boolean
  readonly hasMore: boolean
  readonly cursor?: string
}

async function started(options: ConsoleOptions = {}) {
  const running = await startConsole(options)
  const { send } = running
  const issue = async (workspaceId = 'ws_1') => {
    const request = { name: 'build server', scopes: ['files:read'] }
    return (await send('POST', `/admin/v1/workspaces/${workspaceId}/keys`, request)).body.key.id
  }
  const keyId = await issue()
  const count = (requests: number, more: object = {}) => ({
    ...{ keyId, route: 'files', code: 'ok', minute: Math.floor(Date.now() / 60_000), count: requests },
    ...more,
  })
  const report = (sequence: unknown, counts: readonly object[], more: object = {}) =>
    send('POST', USAGE, { gateway: 'gateway-1.a1b2', sequence, used: {}, counts, refusals: [], ...more })
  // The answer's shape is compared with its schema.
  const usage = async (path: string) => (await send('GET', `/admin/v1${path}`)).body as unknown as UsageBody
  const requests = async (path = `/keys/${keyId}/usage`) =>
    (await usage(path)).usage.reduce((sum, point) => sum + point.requests, 0)
  return { ...running, keyId, issue, count, report, usage, requests }
}

describe('a report of a gateway', () => {
  test('is counted, and answered with what is not valid in it', async () => {
    const { count, report, usage, requests, keyId, metrics } = await started()
    const first = await report(1, [count(3), count(2, { code: 'scope_missing', route: 'workspace' })])
    expect([first.status, first.body]).toEqual([200, {}])
    const second = await report(2, [count(1, { keyId: UNKNOWN_KEY }), count(-1), count(4)])
    expect([second.status, second.body]).toEqual([
      200,
      {
        refused: 2,
        requests: 1,
        first: [
          { list: 'counts', index: 0, error: 'unknown key' },
          { list: 'counts', index: 1, error: 'count must be a whole number from 1 to 1000000000' },
        ],
      },
    ])
    expect(await metricValue(metrics.usageEntriesRefused, { list: 'counts' })).toBe(2)
    const body = await usage(`/keys/${keyId}/usage`)
    expect(body.usage).toHaveLength(24)
    expect(body.step).toBe('hour')
    expect(await requests()).toBe(9)
    expect((await usage('/workspaces/ws_1/usage?step=day')).usage.at(-1)).toMatchObject({
      requests: 9,
      byCode: { ok: 7, scope_missing: 2 },
      byRoute: { files: 7, workspace: 2 },
    })
  })

  test('counts once, however often and at the same time it is repeated', async () => {
    const { count, report, requests } = await started()
    const answers = await Promise.all(Array.from({ length: 5 }, () => report(7, [count(3)])))
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200, 200])
    expect((await report(7, [count(3)])).status).toBe(200)
    expect((await report(6, [count(100)])).status).toBe(200)
    expect(await requests()).toBe(3)
  })

  test.each([
    ['0', 0],
    ['a part', 1.5],
    ['a text', '7'],
    ['nothing', undefined],
    ['beyond whole numbers', 2 ** 60],
  ])('is refused as a whole where its sequence is no whole number from 1: %s', async (_, sequence) => {
    const { count, report, requests } = await started()
    const { status, body } = await report(sequence, [count(1)])
    expect([status, body]).toMatchObject([400, { code: 'invalid_request', field: 'sequence' }])
    expect(await requests()).toBe(0)
  })

  test('is refused without the name of its gateway, and above 6 MiB', async () => {
    const { count, report, send } = await started()
    const nameless = await report(1, [count(1)], { gateway: 'a b' })
    expect([nameless.status, nameless.body]).toMatchObject([400, { field: 'gateway' }])
    const large = await send('POST', USAGE, { gateway: 'g', sequence: 1, counts: ['x'.repeat(6 * 2 ** 20)] })
    expect([large.status, large.body.code]).toEqual([413, 'request_too_large'])
    const heavy = await send('POST', USAGE, { gateway: 'g', sequence: 1, counts: ['x'.repeat(5 * 2 ** 20)] })
    expect(heavy.status).toBe(200)
  })

  test('is refused where a field is wrong, and the answer says what it must be', async () => {
    const { report } = await started()
    const GATEWAY = '1 to 320 characters of A-Z, a-z, 0-9 and "-", ".", "_", ":"'
    const USED = 'an object of at most 10000 key ids, each with whole milliseconds since the epoch'
    const wrong: readonly (readonly [change: object, field: string, expected: string])[] = [
      [{ gateway: '' }, 'gateway', GATEWAY],
      [{ gateway: 'g'.repeat(321) }, 'gateway', GATEWAY],
      [{ gateway: ' g' }, 'gateway', GATEWAY],
      [{ gateway: 7 }, 'gateway', GATEWAY],
      [{ sequence: undefined }, 'sequence', 'a whole number from 1'],
      [{ used: [] }, 'used', USED],
      [{ used: 'x' }, 'used', USED],
      [{ counts: {} }, 'counts', 'a list of at most 10000 counts'],
      [{ refusals: 'x' }, 'refusals', 'a list of at most 10000 refusals'],
      [{ omittedRefusals: 1 }, 'omittedRefusals', 'a list of at most 10000 workspaces'],
      [{ lost: -1 }, 'lost', 'a whole number'],
      [{ lost: 0.5 }, 'lost', 'a whole number'],
    ]
    for (const [change, field, expected] of wrong) {
      const { status, body } = await report(1, [], change)
      const error = `${field} must be ${expected}`
      expect([change, status, body]).toEqual([change, 400, { code: 'invalid_request', error, field }])
    }
  })

  test('with the longest name of a gateway, the least sequence and what it lost is taken', async () => {
    const { report, send } = await started()
    const more = { gateway: `A-Z.a_z:0-9${'g'.repeat(309)}`, lost: 0, used: { key_a: 0 } }
    expect((await report(1, [], more)).status).toBe(200)
    // Without lists it has no entries, of which none is wrong.
    const least = await send('POST', USAGE, { gateway: 'g', sequence: 1 })
    expect([least.status, least.body]).toEqual([200, {}])
    const unknown = await send('POST', USAGE, { gateway: 'g', sequence: 2, note: 'x' })
    expect([unknown.status, unknown.body.code]).toEqual([400, 'invalid_request'])
  })

  test('has at most 10,000 entries, all lists together; one with more is refused before they are read', async () => {
    const { count, report, requests, keyId } = await started()
    const entries = 10_000
    const many = Array.from({ length: entries }, () => count(1))
    const used = { [keyId]: Date.now() }
    const sizes: [object[], object][] = [
      [[...many, count(1)], {}],
      [many, { used }],
      [[], { refusals: Array.from({ length: entries + 1 }, () => 1) }],
      [[], { omittedRefusals: Array.from({ length: entries + 1 }, () => 1) }],
      [[], { used: Object.fromEntries(many.map((_, index) => [`k${index}`, 1])), refusals: [1] }],
      [[], { used: Object.fromEntries([...many, 1].map((_, index) => [`k${index}`, 1])) }],
    ]
    for (const [counts, more] of sizes) {
      const { status, body } = await report(1, counts, more)
      expect([status, body.code]).toEqual([400, 'invalid_request'])
      expect(body.error).toMatch(/at most 10000/)
    }
    expect(await requests()).toBe(0)
    expect((await report(1, many)).status).toBe(200)
    expect(await requests()).toBe(entries)
  })

  test('whose entries are all refused has a short answer: how many, how many requests they stood for, and the first 20', async () => {
    const { count, report, metrics } = await started()
    const wrong = Array.from({ length: 4_999 }, () => count(3, { keyId: UNKNOWN_KEY }))
    const refusals = Array.from({ length: 5_001 }, () => '{}')
    const { status, body, text } = await report(1, wrong, { refusals })
    expect([status, body]).toMatchObject([200, { refused: 10_000, requests: 3 * 4_999 }])
    expect(text.length).toBeLessThan(2_000)
    expect(body).toHaveProperty('first.length', 20)
    expect(await metricValue(metrics.usageEntriesRefused, { list: 'refusals' })).toBe(5_001)
  })

  test.each([
    ['numbers', '1,'],
    ['objects', '{},'],
    ['lists in lists', '['],
    ['texts', '"",'],
  ])('of millions of %s is refused before it is parsed', async (_, entry) => {
    const { send } = await started()
    const payload = `{"gateway":"g","sequence":1,"counts":[${entry.repeat(Math.floor((6 * 2 ** 20 - 100) / entry.length))}1]}`
    const { status, body } = await send('POST', USAGE, {}, { payload })
    expect([status, body]).toMatchObject([
      413,
      { code: 'request_too_large', error: expect.stringMatching(/values/) },
    ])
  })

  test('says when a key was last used, to the second', async () => {
    let nowMs = Date.now()
    const clock = { wallMs: () => nowMs, monotonicMs: () => performance.now() }
    const { send, report, keyId } = await started({ parts: { clock } })
    const lastUsedAt = async () => (await send('GET', `/admin/v1/keys/${keyId}`)).body.key.lastUsedAt
    nowMs += 60_000
    await report(1, [], { used: { [keyId]: nowMs - 12_000 } })
    expect(await lastUsedAt()).toBe(new Date(nowMs - 12_000).toISOString())
    nowMs += 10_000
    await report(2, [], { used: { [keyId]: nowMs - 21_000 } })
    expect(await lastUsedAt()).toBe(new Date(nowMs - 21_000).toISOString())
    nowMs += 10_000
    await report(3, [], { used: { [keyId]: nowMs - 60_000 } })
    expect(await lastUsedAt()).toBe(new Date(nowMs - 31_000).toISOString())
    nowMs += 10_000
    // The time of a clock that is ahead counts as now.
    await report(4, [], { used: { [keyId]: nowMs + 5000 } })
    expect(await lastUsedAt()).toBe(new Date(nowMs).toISOString())
  })

  test('keeps the other times of use where some are not valid, names these and counts them', async () => {
    const { send, report, keyId, issue, metrics } = await started()
    const other = await issue()
    const usedAt = Date.now() - 5000
    const used = { [keyId]: usedAt, [other]: 0.5, [UNKNOWN_KEY]: -1, key_a: usedAt, x: 'now' }
    const { status, body } = await report(1, [], { used })
    const [noTime, noKey] = ['must be whole milliseconds since the epoch', 'not the id of a key']
    const errors = [noTime, noTime, noKey, noKey]
    const first = errors.map((error, index) => ({ list: 'used', index: index + 1, error }))
    expect([status, body]).toEqual([200, { refused: 4, requests: 0, first }])
    const refused = () => metricValue(metrics.usageEntriesRefused, { list: 'used' })
    expect(await refused()).toBe(4)
    // Version 1 of the contract has no answer to name them in.
    expect((await send('POST', USAGE, { used: { key_a: usedAt } })).status).toBe(204)
    expect(await refused()).toBe(5)
    const lastUsedAt = async (id: string) => (await send('GET', `/admin/v1/keys/${id}`)).body.key.lastUsedAt
    expect([await lastUsedAt(keyId), await lastUsedAt(other)]).toEqual([expect.any(String), null])
  })

  test('without a number, as version 1 of the contract has it, still says when keys were last used', async () => {
    const { send, keyId } = await started()
    const minute = Math.floor(Date.now() / 60_000) * 60_000
    expect((await send('POST', USAGE, { used: { [keyId]: minute } })).status).toBe(204)
    expect((await send('GET', `/admin/v1/keys/${keyId}`)).body.key.lastUsedAt).not.toBeNull()
    expect((await send('POST', USAGE, {})).body).toMatchObject({ code: 'invalid_request', field: 'used' })
  })

  test('is answered 503 while the database takes no counts, counts when it is repeated, and changes to keys go on', async () => {
    const file = join(databaseDirectory(), 'postern.db')
    const { count, report, requests, issue, metrics, log } = await started({ databaseUrl: `sqlite:${file}` })
    const other = new DatabaseSync(file)
    other.exec(`create trigger full_disk before insert on usage_hours
      begin select raise(abort, 'database or disk is full'); end`)
    const counts = [count(3)]
    const { status, body, headers } = await report(1, counts)
    expect([status, body.code, headers['retry-after']]).toEqual([503, 'database_unavailable', '10'])
    expect(await issue()).toMatch(/^key_/)
    expect(await metricValue(metrics.usageReports, { outcome: 'failed' })).toBe(1)
    expect(log.filter(({ msg }) => msg === 'usage storage failing')).toMatchObject([
      { reason: 'database or disk is full' },
    ])
    other.exec('drop trigger full_disk')
    other.close()
    expect((await report(1, counts)).status).toBe(200)
    expect(await requests()).toBe(3)
  })
})

describe('the admin API on usage', () => {
  test.each([
    ['?step=week', 'step'],
    ['?from=yesterday', 'from'],
    ['?from=2020-01-01T00:00:00Z&step=day', 'from'],
    ['?from=2026-01-01T00:00:00Z', 'from'],
    ['?to=2020', 'to'],
    ['?limit=5', 'limit'],
  ])('refuses %s, and names the parameter', async (query, field) => {
    const { send, keyId } = await started()
    for (const path of [`/keys/${keyId}/usage`, '/workspaces/ws_1/usage']) {
      const { status, body } = await send('GET', `/admin/v1${path}${query}`)
      expect([status, body]).toMatchObject([400, { code: 'invalid_request', field }])
    }
  })

  test('answers for a workspace or key that the caller may not see as for one that is not there', async () => {
    const { send, keyId } = await started()
    const rights = { name: 'reader', permissions: ['keys:read'], workspaces: ['ws_2'], expiresInDays: 1 }
    const { secret } = (await send('POST', '/admin/v1/tokens', rights)).body
    const get = (path: string) =>
      send('GET', `/admin/v1${path}`, undefined, { headers: { authorization: `Bearer ${secret}` } })
    const [other, unknown] = [await get(`/keys/${keyId}/usage`), await get(`/keys/${UNKNOWN_KEY}/usage`)]
    expect([other.status, other.text]).toEqual([404, unknown.text])
    expect((await get('/workspaces/ws_1/usage')).status).toBe(404)
    expect((await get('/workspaces/ws_1/refusals')).status).toBe(404)
    expect((await get('/workspaces/ws_2/usage')).status).toBe(200)
    const auditor = { ...rights, permissions: ['audit:read'] }
    const token = (await send('POST', '/admin/v1/tokens', auditor)).body.secret
    const headers = { authorization: `Bearer ${token}` }
    expect((await send('GET', '/admin/v1/workspaces/ws_2/usage', undefined, { headers })).status).toBe(403)
  })

  test('shows the refusals of a workspace, newest first, page by page', async () => {
    const { send, report, issue, keyId } = await started()
    const other = await issue('ws_2')
    const refusal = (requestId: string, more: object = {}) => ({
      ...{ at: Date.now() - 1000, keyId, route: 'files', code: 'not_found', reason: 'other_workspace' },
      ...{ requestId, address: '192.0.2.0/24', ...more },
    })
    const refusals = [refusal('r1'), refusal('r2', { at: Date.now() }), refusal('r3', { keyId: other })]
    await report(1, [], { refusals, omittedRefusals: [{ workspaceId: 'ws_2', count: 4 }] })
    const page = async (query: string) =>
      (await send('GET', `/admin/v1/workspaces/${query}`)).body as unknown as RefusalsBody
    const first = await page('ws_1/refusals?limit=1')
    expect(first).toMatchObject({ refusals: [{ requestId: 'r2' }], sampled: false, hasMore: true })
    const second = await page(`ws_1/refusals?limit=1&cursor=${first.cursor}`)
    expect(second).toEqual({
      refusals: [
        {
          ...{ at: expect.any(String), route: 'files', code: 'not_found', reason: 'other_workspace' },
          ...{ workspaceId: 'ws_1', keyId, requestId: 'r1', address: '192.0.2.0/24' },
        },
      ],
      sampled: false,
      hasMore: false,
    })
    expect(await page('ws_2/refusals')).toMatchObject({ refusals: [{ keyId: other }], sampled: true })
    const wrong = await send('GET', '/admin/v1/workspaces/ws_1/refusals?cursor=x')
    expect(wrong.body).toMatchObject({ code: 'invalid_request', field: 'cursor' })
  })

  test('finds refusals of all workspaces by code and request id, and shows none to a token for some of them', async () => {
    const { send, report, issue, keyId } = await started()
    const other = await issue('ws_2')
    const refusal = (requestId: string, more: object = {}) => ({
      ...{ at: Date.now(), keyId, route: 'files', code: 'not_found', reason: 'other_workspace' },
      ...{ requestId, address: '192.0.2.0/24', ...more },
    })
    const limited = { keyId: other, code: 'rate_limited', reason: 'rate_limited', at: Date.now() - 1000 }
    await report(1, [], { refusals: [refusal('r1'), refusal('r2', limited)] })
    const search = async (query: string, more: object = {}) =>
      send('GET', `/admin/v1/refusals${query}`, undefined, more)
    const first = await search('?limit=1')
    expect(first.body).toMatchObject({
      refusals: [{ requestId: 'r1', workspaceId: 'ws_1' }],
      sampled: false,
      hasMore: true,
    })
    const second = { refusals: [{ requestId: 'r2', workspaceId: 'ws_2', keyId: other }], hasMore: false }
    expect((await search(`?limit=1&cursor=${first.body.cursor}`)).body).toMatchObject(second)
    expect((await search('?code=rate_limited')).body).toMatchObject(second)
    expect((await search('?requestId=r2')).body).toMatchObject(second)
    expect((await search('?requestId=r2&code=not_found')).body).toMatchObject({ refusals: [] })
    const unknown = await search('?code=unknown')
    expect(unknown.body).toMatchObject({ code: 'invalid_request', field: 'code' })
    expect((await search('?requestId=')).body).toMatchObject({ field: 'requestId' })
    const rights = { name: 'reader', permissions: ['keys:read'], workspaces: ['ws_2'], expiresInDays: 1 }
    const { secret } = (await send('POST', '/admin/v1/tokens', rights)).body
    for (const path of ['', '/export']) {
      const denied = await search(path, { headers: { authorization: `Bearer ${secret}` } })
      expect([denied.status, denied.body.code]).toEqual([403, 'forbidden'])
    }
  })

  test('finds refusals by key and time, of a workspace and of all, and exports what the conditions select as lines', async () => {
    const { app, send, report, issue, keyId } = await started()
    const [second, elsewhere] = [await issue(), await issue('ws_2')]
    const nowMs = Date.now()
    const refusal = (requestId: string, more: object) => ({
      ...{ at: nowMs, route: 'files', code: 'not_found', reason: 'other_workspace' },
      ...{ requestId, address: '192.0.2.0/24', ...more },
    })
    const refusals = [
      refusal('r1', { keyId }),
      refusal('r2', { keyId: second, at: nowMs - 1000 }),
      refusal('r3', { keyId: elsewhere, at: nowMs - 2000 }),
      refusal('r4', { keyId, at: nowMs - 3000, code: 'rate_limited', reason: 'rate_limited' }),
    ]
    await report(1, [], { refusals })
    const instant = (ms: number) => new Date(ms).toISOString()
    const found = async (query: Record<string, string>, path = '/refusals') => {
      const { body } = await send('GET', `/admin/v1${path}?${new URLSearchParams(query)}`)
      return body.refusals.map(({ requestId }) => requestId)
    }
    const own = '/workspaces/ws_1/refusals'
    const span = { from: instant(nowMs - 3000), to: instant(nowMs - 1000) }
    expect(await found({ keyId })).toEqual(['r1', 'r4'])
    expect(await found(span)).toEqual(['r3', 'r4'])
    expect(await found({ ...span, keyId })).toEqual(['r4'])
    expect(await found({ keyId, limit: '1' }, own)).toEqual(['r1'])
    expect(await found(span, own)).toEqual(['r4'])
    expect(await found({ code: 'not_found' }, own)).toEqual(['r1', 'r2'])
    expect(await found({ requestId: 'r2' }, own)).toEqual(['r2'])
    expect(await found({ keyId: elsewhere }, own)).toEqual([])
    for (const path of ['/refusals', own, '/refusals/export']) {
      for (const [field, value] of [
        ['keyId', 'importer'],
        ['from', 'today'],
        ['to', '2026-02-30T00:00:00Z'],
      ] as const) {
        const { body } = await send('GET', `/admin/v1${path}?${field}=${value}`)
        expect(body).toMatchObject({ code: 'invalid_request', field })
      }
    }
    const url = `/admin/v1/refusals/export?keyId=${keyId}`
    const exported = await app.inject({ url, headers: { authorization: `Bearer ${ADMIN_TOKEN}` } })
    expect(exported.headers['content-type']).toBe('application/x-ndjson; charset=utf-8')
    const lines = exported.body.split('\n').filter(Boolean)
    const { body } = await send('GET', `/admin/v1/refusals?keyId=${keyId}`)
    expect(lines.map(line => JSON.parse(line))).toEqual(body.refusals)
    expect(lines).toHaveLength(2)
  })

  test('shows limits that are nearly used up, page by page, and to a token only those of its workspaces', async () => {
    const quota = { name: 'quota', per: 'key', requests: 100, window: 'month' } as const
    // Also where counts are not kept.
    const { send, report, issue, keyId } = await started({ keepsUsage: false, limits: { policies: [quota] } })
    const other = await issue('ws_2')
    const endsAt = Date.now() + 86_400_000
    const use = { plan: null, policy: 'quota', windowSeconds: null, requests: 100, endsAt }
    const limits = [
      { ...use, keyId, used: 80 },
      { ...use, keyId: other, used: 100 },
    ]
    await report(1, [], { limits })
    const { secret } = (
      await send('POST', '/admin/v1/tokens', {
        ...{ name: 'reader', permissions: ['keys:read'], workspaces: ['ws_1'], expiresInDays: 1 },
      })
    ).body
    const get = (query: string, token?: string) =>
      send('GET', `/admin/v1/limits${query}`, undefined, {
        ...(token === undefined ? {} : { headers: { authorization: `Bearer ${token}` } }),
      })
    const first = await get('?limit=1')
    expect(first.body).toMatchObject({
      limits: [{ keyId: other, workspaceId: 'ws_2', used: 100 }],
      hasMore: true,
    })
    const second = await get(`?limit=1&cursor=${first.body.cursor}`)
    const own = {
      ...{ workspaceId: 'ws_1', keyId, policy: 'quota', plan: null, per: 'key', region: null },
      ...{ limit: 100, used: 80, remaining: 20, resetsAt: new Date(endsAt).toISOString() },
      reportedAt: expect.any(String),
    }
    expect(second.body).toEqual({ limits: [own], hasMore: false })
    expect((await get('', secret)).body).toEqual({ limits: [own], hasMore: false })
    expect((await get('?workspaceId=ws_2', secret)).status).toBe(404)
    expect((await get('?workspaceId=a%20b')).body).toMatchObject({
      code: 'invalid_request',
      field: 'workspaceId',
    })
    expect((await get('?cursor=x')).body).toMatchObject({ code: 'invalid_request', field: 'cursor' })
  })

  test('answers usage_disabled if counts are switched off, and lastUsedAt goes on', async () => {
    const { send, report, count, keyId } = await started({ keepsUsage: false })
    const refusals = [{ at: Date.now(), keyId }]
    expect((await report(1, [count(1)], { refusals, used: { [keyId]: Date.now() } })).body).toEqual({})
    for (const path of [
      `keys/${keyId}/usage`,
      'workspaces/ws_1/usage',
      'workspaces/ws_1/refusals',
      'refusals',
    ]) {
      const { status, body } = await send('GET', `/admin/v1/${path}`)
      expect([status, body.code]).toEqual([404, 'usage_disabled'])
    }
    expect((await send('GET', `/admin/v1/keys/${keyId}`)).body.key.lastUsedAt).not.toBeNull()
  })

  test('keeps counts without refusals if those are switched off', async () => {
    const { send, report, count, requests } = await started({ keepsRefusals: false })
    await report(1, [count(2)])
    expect(await requests()).toBe(2)
    for (const path of ['workspaces/ws_1/refusals', 'refusals', 'refusals/export']) {
      expect((await send('GET', `/admin/v1/${path}`)).body.code).toBe('usage_disabled')
    }
  })
})
