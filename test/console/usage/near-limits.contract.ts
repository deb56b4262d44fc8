import { randomBytes } from 'node:crypto'
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import type { Config } from '../../../src/config/schema/schema.ts'
import { createIds } from '../../../src/console/platform/database/ids.ts'
import { toKeyRow } from '../../../src/console/platform/database/key-row.ts'
import { createNearLimitsReader } from '../../../src/console/usage/read-limits.ts'
import { purgeUsage } from '../../../src/console/usage/reports/rows.ts'
import { type AddLimitEvents, storeReports } from '../../../src/console/usage/reports/store-reports.ts'
import { createLimitEvent } from '../../../src/console/webhooks/events.ts'
import { insertEvents } from '../../../src/console/webhooks/rows.ts'
import type { LimitUse } from '../../../src/domain/rate-limit.ts'
import { openDatabase } from '../../support/open-database.ts'
import { NOW_MS, someKey } from '../../support/stored-keys.ts'
import { report } from './usage.contract.ts'

const HOUR_MS = 3_600_000
const MONTH_END_MS = Date.parse('2026-12-01T00:00:00Z')
const QUOTA = { name: 'quota', per: 'workspace', requests: 100, window: 'month' } as const
const MINUTE = { name: 'minute', per: 'key', requests: 10, windowSeconds: 60 } as const
const LIMITS: Config['limits'] = {
  replicas: 1,
  policies: [QUOTA],
  plans: {
    free: { policies: [QUOTA, MINUTE] },
    business: { policies: [{ ...QUOTA, requests: 1000 }] },
  },
}

/** @param freshUrl the address of a database without rows. @param consoles how many share it */
export function describeNearLimits(name: string, freshUrl: () => Promise<string>, consoles: number): void {
  describe(`limits that are nearly used up, in ${name}`, () => {
    let nowMs: number
    let sequence: number
    let opened: Awaited<ReturnType<typeof openDatabase>>[]
    beforeEach(async () => {
      nowMs = NOW_MS
      sequence = 0
      const url = await freshUrl()
      opened = await Promise.all(Array.from({ length: consoles }, () => openDatabase(url)))
      for (const database of opened) onTestFinished(() => database.close())
    })

    const newId = createIds('msg', randomBytes)
    const addEvents: AddLimitEvents = async (tx, reached) => {
      const events = reached.map(limit => createLimitEvent(limit, newId(nowMs)))
      await insertEvents(
        tx,
        events.map(event => ({ ...event, receiver: 'operator' })),
      )
    }
    const first = () => {
      const [database] = opened
      if (database === undefined) throw new Error('No database is open')
      return database
    }
    const addKeys = async (...keys: readonly ReturnType<typeof someKey>[]) => {
      await first()
        .writer.insertInto('keys')
        .values(keys.map(key => toKeyRow(key, NOW_MS)))
        .execute()
      return keys.map(({ record }) => record.id)
    }
    /** As many gateways report the same, each at another console. */
    const reportAll = async (uses: readonly LimitUse[], gateways = 1) => {
      sequence++
      await Promise.all(
        Array.from({ length: gateways }, (_, gateway) => {
          const database = opened[gateway % consoles] ?? first()
          const sent = report(`g${gateway}`, sequence, [], { limits: uses })
          return storeReports(database, [sent], nowMs, addEvents)
        }),
      )
    }
    const events = async () => {
      const rows = await first()
        .reader.selectFrom('webhook_deliveries')
        .select('body')
        .orderBy('id')
        .execute()
      return rows.map(({ body }) => JSON.parse(body))
    }
    const types = async () => (await events()).map(({ type }) => type)
    const read = (limits = LIMITS) =>
      createNearLimitsReader(first(), {
        config: { limits },
        onReload: () => {},
        clock: { wallMs: () => nowMs },
      })
    const list = async (workspaceIds: readonly string[] | null = null, limits = LIMITS) => {
      const page = await read(limits).list({ workspaceIds, limit: 50, after: null })
      return page.limits.map(({ workspace_id, key_id, policy, used }) => [workspace_id, key_id, policy, used])
    }

    test('have one event at 80 % and one at 100 %, though three gateways say so again and again', async () => {
      for (const used of [80, 81, 99]) await reportAll([quota(used)], 3)
      expect(await types()).toEqual(['limit.approaching'])
      for (let times = 0; times < 3; times++) await reportAll([quota(100)], 3)
      const [approaching, reached] = await events()
      expect(approaching).toEqual({
        type: 'limit.approaching',
        timestamp: new Date(NOW_MS).toISOString(),
        data: {
          workspaceId: 'ws_1',
          keyId: null,
          policy: 'quota',
          plan: 'free',
          per: 'workspace',
          region: null,
          limit: 100,
          used: 80,
          remaining: 20,
          resetsAt: '2026-12-01T00:00:00.000Z',
          windowSeconds: null,
          percent: 80,
        },
      })
      expect(reached).toMatchObject({
        type: 'limit.reached',
        data: { used: 100, remaining: 0, percent: 100 },
      })
      expect(await events()).toHaveLength(2)
    })

    test('have both events where one report brings both, and again in the next window and for a higher limit', async () => {
      await reportAll([quota(100)], 3)
      expect(await types()).toEqual(['limit.approaching', 'limit.reached'])
      await reportAll([quota(800, { requests: 1000, plan: 'business' })])
      expect(await types()).toEqual(['limit.approaching', 'limit.reached', 'limit.approaching'])
      nowMs = MONTH_END_MS + 1000
      await reportAll([quota(100)])
      // An earlier window, of a gateway that could not report in time, causes no event.
      expect(await types()).toHaveLength(3)
      await reportAll([quota(85, { endsAt: Date.parse('2027-01-01T00:00:00Z') })], 3)
      await reportAll([quota(100)])
      expect(await types()).toHaveLength(4)
    })

    test('have an event once an hour where the window is shorter, and clocks of gateways may differ', async () => {
      const [keyId = ''] = await addKeys(someKey({ plan: 'free' }))
      const minute = (endsAt: number) => [ofMinute(keyId, 8, endsAt)]
      await reportAll(minute(nowMs + 40_000))
      await reportAll(minute(nowMs + 41_500), 3)
      nowMs += 60_000
      await reportAll(minute(nowMs + 50_000), 3)
      expect(await types()).toEqual(['limit.approaching'])
      // An hour after the event, though the window was reported since.
      nowMs += HOUR_MS - 60_000
      await reportAll(minute(nowMs + 50_000), 3)
      expect(await types()).toEqual(['limit.approaching', 'limit.approaching'])
    })

    test('are listed, the fullest first and page by page, until the window ends; to some in their workspaces alone', async () => {
      const [one = '', other = ''] = await addKeys(
        someKey({ plan: 'free' }),
        someKey({ plan: 'free', workspaceId: 'ws_2' }),
      )
      await first()
        .writer.insertInto('workspace_plans')
        .values({ workspace_id: 'ws_1', plan: 'free' })
        .execute()
      const ends = nowMs + 30_000
      await reportAll([quota(90), ofMinute(one, 8, ends), ofMinute(other, 10, ends, 'ws_2')])
      // Of a gateway that has seen fewer requests.
      await reportAll([quota(85)])
      const all = [
        ['ws_2', other, 'minute', 10],
        ['ws_1', '', 'quota', 90],
        ['ws_1', one, 'minute', 8],
      ]
      expect(await list()).toEqual(all)
      expect(await list(['ws_1'])).toEqual(all.slice(1))
      expect(await list(['ws_1', 'ws_2', 'ws_3'])).toEqual(all)
      expect(await list([])).toEqual([])
      const shown: unknown[] = []
      let after: string | null = null
      for (let pages = 0; pages < 3; pages++) {
        const { limits, nextAfter } = await read().list({ workspaceIds: null, limit: 1, after })
        shown.push(
          ...limits.map(({ workspace_id, key_id, policy, used }) => [workspace_id, key_id, policy, used]),
        )
        after = nextAfter
        expect(after === null).toBe(pages === 2)
      }
      expect(shown).toEqual(all)
      nowMs += 30_000
      expect(await list()).toEqual([all[1]])
      nowMs = MONTH_END_MS + 25 * HOUR_MS
      await purgeUsage(first(), nowMs)
      expect(await first().reader.selectFrom('limit_uses').selectAll().execute()).toEqual([])
    })

    test('are no longer listed once the limit does not hold: another plan, another number, a key that ended', async () => {
      const [key = '', ended = ''] = await addKeys(
        someKey({ plan: 'free' }),
        someKey({ plan: 'free', revokedAtMs: NOW_MS, version: 2 }),
      )
      const ends = nowMs + 30_000
      await reportAll([quota(90), ofMinute(key, 9, ends), ofMinute(ended, 9, ends)])
      const both = [
        ['ws_1', key, 'minute', 9],
        ['ws_1', '', 'quota', 90],
      ]
      expect((await list()).sort()).toEqual(both.sort())
      const raised = {
        ...LIMITS,
        plans: { ...LIMITS.plans, free: { policies: [{ ...QUOTA, requests: 200 }, MINUTE] } },
      }
      expect(await list(null, raised)).toEqual([both.find(([, id]) => id === key)])
      await first().writer.updateTable('keys').set({ plan: 'business' }).where('id', '=', key).execute()
      expect(await list()).toEqual([])
      // Settings without plans.
      await reportAll([quota(95, { plan: null })])
      expect(await list(null, { ...LIMITS, plans: {} })).toEqual([['ws_1', '', 'quota', 95]])
      // A plan that the settings do not name counts as none.
      await reportAll([quota(95, { plan: null })])
      await first().writer.updateTable('keys').set({ plan: 'gone' }).execute()
      expect(await list()).toEqual([['ws_1', '', 'quota', 95]])
    })

    test('of several regions count each by itself', async () => {
      for (const region of ['eu', 'us', 'eu']) {
        const sent = report('g1', ++sequence, [], { region, limits: [quota(80)] })
        await storeReports(first(), [sent], nowMs, addEvents)
      }
      expect((await events()).map(({ data }) => data.region)).toEqual(['eu', 'us'])
    })
  })
}

function quota(used: number, more: Partial<LimitUse> = {}): LimitUse {
  const policy = { plan: 'free', policy: 'quota', windowSeconds: null, requests: 100 }
  return { workspaceId: 'ws_1', keyId: null, ...policy, used, endsAt: MONTH_END_MS, ...more }
}

function ofMinute(keyId: string, used: number, endsAt: number, workspaceId = 'ws_1'): LimitUse {
  const policy = { plan: 'free', policy: 'minute', windowSeconds: 60, requests: 10 }
  return { workspaceId, keyId, ...policy, used, endsAt }
}
