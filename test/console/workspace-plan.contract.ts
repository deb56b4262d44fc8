import { describe, expect, onTestFinished, test } from 'vitest'
import { toKeyRow } from '../../src/console/platform/database/key-row.ts'
import type { StoredKey } from '../../src/domain/key/key-record.ts'
import { startConsole } from '../support/console.ts'
import { ManualClock } from '../support/manual-clock.ts'
import { readMessage } from '../support/messages.ts'
import { openDatabase } from '../support/open-database.ts'
import { createRepository } from '../support/repository.ts'
import { ScriptedAnnouncer } from '../support/scripted-announcer.ts'
import { NOW_MS, revoked, someKey } from '../support/stored-keys.ts'

const PLAN = '/admin/v1/workspaces/ws_1/plan'
const KEYS = '/admin/v1/workspaces/ws_1/keys'
const DAY_MS = 86_400_000
const WANTED = { name: 'build server', scopes: ['files:read'] }

/** @param freshUrl the address of a database without rows that a second connection sees */
export function describeWorkspacePlan(database: string, freshUrl: () => Promise<string>): void {
  const started = async (keys: readonly StoredKey[] = []) => {
    const databaseUrl = await freshUrl()
    const opened = await openDatabase(databaseUrl)
    onTestFinished(() => opened.close())
    for (let from = 0; from < keys.length; from += 500) {
      const rows = keys.slice(from, from + 500).map(key => toKeyRow(key, Date.now()))
      await opened.writer.insertInto('keys').values(rows).execute()
    }
    const announcer = new ScriptedAnnouncer()
    const running = await startConsole({ databaseUrl, parts: { announcer }, plans: ['free', 'business'] })
    const setPlan = (plan: string | null) => running.send('PUT', PLAN, { plan })
    const plansOf = async () => {
      const rows = await opened.reader.selectFrom('keys').select(['id', 'plan']).execute()
      return new Map(rows.map(({ id, plan }) => [id, plan]))
    }
    return { ...running, announcer, setPlan, plansOf }
  }
  const live = (overrides: Parameters<typeof someKey>[0] = {}) =>
    someKey({ createdAtMs: Date.now(), expiresAtMs: Date.now() + DAY_MS, ...overrides })

  describe(`the plan of a workspace, in ${database}`, () => {
    test('is that of every key of it that has not ended, and of no other', async () => {
      const keys = [live(), live({ suspendedAtMs: 1, version: 2 }), live({ plan: 'business' })]
      const ended = [revoked(live()), live({ expiresAtMs: 1 })]
      const elsewhere = live({ workspaceId: 'ws_2' })
      const { setPlan, plansOf, send, announcer } = await started([...keys, ...ended, elsewhere])
      expect((await send('GET', PLAN)).body).toEqual({ plan: null })
      const { status, body } = await setPlan('business')
      const gateways = { known: 0, confirmed: 0, verifying: 0, silent: [] }
      expect([status, body]).toEqual([200, { plan: 'business', changed: 2, announced: true, gateways }])
      expect((await send('GET', PLAN)).body).toEqual({ plan: 'business' })
      const plans = await plansOf()
      expect(keys.map(({ record }) => plans.get(record.id))).toEqual(['business', 'business', 'business'])
      for (const { record } of [...ended, elsewhere]) expect(plans.get(record.id)).toBe(null)
      const changes = announcer.published.map(readMessage).filter(message => message?.kind === 'change')
      // On a slow machine the outbox may announce one once more before it deletes it, which does no harm.
      expect(new Set(changes.map(change => change.version))).toEqual(new Set([2, 3]))
      expect((await setPlan(null)).body).toMatchObject({ plan: null, changed: 3 })
      expect([...(await plansOf()).values()].filter(plan => plan !== null)).toEqual([])
    })

    test('is given to a thousand keys in one call, and to those that are issued, rotated or imported later', async () => {
      const keys = Array.from({ length: 1000 }, () => live())
      const { setPlan, plansOf, send } = await started(keys)
      expect((await setPlan('free')).body).toMatchObject({ changed: 1000, announced: true })
      expect([...(await plansOf()).values()].every(plan => plan === 'free')).toBe(true)
      const issued = (await send('POST', KEYS, WANTED)).body.key
      expect(issued).toMatchObject({ plan: 'free' })
      expect((await send('POST', KEYS, { ...WANTED, plan: 'business' })).body.key.plan).toBe('business')
      expect((await send('POST', KEYS, { ...WANTED, plan: null })).body.key.plan).toBe(null)
      const rotated = await send('POST', `/admin/v1/keys/${issued.id}/rotate`, {})
      expect(rotated.body).toMatchObject({ key: { plan: 'free' }, replaced: { plan: 'free' } })
      const expiresAt = new Date(Date.now() + DAY_MS).toISOString()
      const entry = { ...WANTED, digest: 'a'.repeat(64), hint: '…abcd', workspaceId: 'ws_1', expiresAt }
      expect((await send('POST', '/admin/v1/import', { keys: [entry] })).body).toMatchObject({ imported: 1 })
      const found = await send('GET', '/admin/v1/keys?plan=free&count=1')
      expect(found.body.total).toBe(1003)
    })

    test('is given to keys behind thousands that have it', async () => {
      const soon = Date.now() + DAY_MS
      const keys = Array.from({ length: 2_100 }, (_, at) => live({ plan: 'free', expiresAtMs: soon + at }))
      const last = [
        live({ expiresAtMs: soon + 3_000 }),
        live({ plan: 'business', expiresAtMs: soon + 3_000 }),
      ]
      const { setPlan, plansOf } = await started([...keys, ...last])
      expect((await setPlan('free')).body).toMatchObject({ changed: 2, announced: true })
      expect(new Set((await plansOf()).values())).toEqual(new Set(['free']))
      expect((await setPlan('free')).body).toMatchObject({ changed: 0 })
    })

    test('is counted exactly, though there are more keys than are read at once', async () => {
      const plans = ['business', 'free', null]
      const keys = Array.from({ length: 2_600 }, (_, index) =>
        someKey({ plan: plans[index % 3] ?? null, workspaceId: `ws_${index % 2}` }),
      )
      const opened = await openDatabase(await freshUrl())
      const repository = createRepository(opened, new ManualClock())
      onTestFinished(() => repository.close())
      expect(await repository.countByPlan()).toEqual([])
      const stored = [...keys, revoked(someKey({ plan: 'free', workspaceId: 'ws_ended' }))]
      for (let from = 0; from < stored.length; from += 500) {
        const rows = stored.slice(from, from + 500).map(key => toKeyRow(key, NOW_MS))
        await opened.writer.insertInto('keys').values(rows).execute()
      }
      const counts = (await repository.countByPlan()) ?? []
      expect(new Map(counts.map(({ plan, ...count }) => [plan, count]))).toEqual(
        new Map([
          ['free', { keys: 867, workspaces: 2 }],
          ['business', { keys: 867, workspaces: 2 }],
          [null, { keys: 866, workspaces: 2 }],
        ]),
      )
    })

    test('is one entry of the audit log, and repeating it writes none', async () => {
      const { setPlan, send } = await started([live(), live()])
      await setPlan('free')
      expect((await setPlan('free')).body).toMatchObject({ plan: 'free', changed: 0, announced: true })
      await setPlan('business')
      const { entries } = (await send('GET', '/admin/v1/workspaces/ws_1/audit')).body
      expect(entries).toMatchObject([
        {
          action: 'workspace.plan_changed',
          keyId: null,
          detail: { changes: { plan: { old: 'free', new: 'business' } } },
        },
        { action: 'workspace.plan_changed', detail: { changes: { plan: { old: null, new: 'free' } } } },
      ])
    })

    test('does not replace the plan that an exported key has when it is imported, and one that is not configured is refused', async () => {
      const { setPlan, send } = await started([live({ plan: 'business' }), live(), live({ plan: 'gone' })])
      const { text } = await send('GET', '/admin/v1/keys/export')
      const exported = text.trim().split('\n')
      const lines = exported.map(line => JSON.parse(line))
      await setPlan('free')
      const moved = lines.map((line, index) => ({ ...line, digest: String(index).repeat(64) }))
      const { body } = await send('POST', '/admin/v1/import', { keys: moved })
      expect(body).toMatchObject({
        imported: 2,
        results: [
          { status: 'imported' },
          { status: 'imported' },
          { status: 'invalid', field: 'plan', error: 'plan must be null or one of business, free' },
        ],
      })
      const { keys } = (await send('GET', '/admin/v1/keys?sort=-createdAt')).body
      const imported = keys.filter(({ id }) => !lines.some(line => line.id === id))
      expect(new Set(imported.map(({ plan }) => plan))).toEqual(new Set(['business', null]))
    })

    test('is refused unless the settings name it, and then nothing changes', async () => {
      const { setPlan, plansOf, send } = await started([live()])
      const refused = await setPlan('gold')
      const error = 'plan must be null or one of business, free'
      expect([refused.status, refused.body]).toMatchObject([400, { field: 'plan', error }])
      expect([...(await plansOf()).values()]).toEqual([null])
      const issued = await send('POST', KEYS, { ...WANTED, plan: 'gold' })
      expect([issued.status, issued.body]).toMatchObject([400, { field: 'plan', error }])
    })

    test('is the later one of two changes at once: each key gets it, and the earlier change ends', async () => {
      const { setPlan, plansOf, send } = await started(Array.from({ length: 1_500 }, () => live()))
      const both = await Promise.all([setPlan('free'), setPlan('business')])
      const [plan, ...others] = new Set((await plansOf()).values())
      expect(others).toEqual([])
      expect((await send('GET', PLAN)).body).toEqual({ plan })
      const { entries } = (await send('GET', '/admin/v1/workspaces/ws_1/audit')).body
      expect([entries.length, entries[0]]).toMatchObject([
        2,
        { detail: { changes: { plan: { new: plan } } } },
      ])
      const ended = both.filter(({ status }) => status === 409)
      for (const { body } of ended)
        expect(body.error).toContain('was changed again; its keys get the later plan')
    })

    test('is not set back by the next call of an earlier change', async () => {
      const { setPlan, plansOf, send } = await started([live(), live()])
      await setPlan('free')
      await setPlan('business')
      const [cursor] = (await plansOf()).keys()
      const rest = await send('PUT', `${PLAN}?cursor=${cursor}`, { plan: 'free' })
      expect([rest.status, rest.body.code]).toEqual([409, 'conflict'])
      expect([...(await plansOf()).values()]).toEqual(['business', 'business'])
      expect((await send('GET', PLAN)).body).toEqual({ plan: 'business' })
    })

    test('is not said to be one that it has no more, though each key was given that one by itself', async () => {
      const { setPlan, plansOf, send } = await started([live()])
      await setPlan('free')
      await setPlan('business')
      const [id] = (await plansOf()).keys()
      const headers = { 'if-match': '"3"' }
      await send('PATCH', `/admin/v1/keys/${id}`, { plan: 'free' }, { headers })
      const rest = await send('PUT', `${PLAN}?cursor=${id}`, { plan: 'free' })
      expect([[...(await plansOf()).values()], rest.status, rest.body.code]).toEqual([
        ['free'],
        409,
        'conflict',
      ])
    })

    test('is that of each key that is issued while it changes', async () => {
      const { setPlan, plansOf, send } = await started(Array.from({ length: 300 }, () => live()))
      const issue = async () => {
        for (let count = 0; count < 10; count++) expect((await send('POST', KEYS, WANTED)).status).toBe(201)
      }
      await Promise.all([issue(), issue(), setPlan('free'), issue()])
      const plans = [...(await plansOf()).values()]
      expect([plans.length, plans.filter(plan => plan !== 'free')]).toEqual([330, []])
    })
  })
}
