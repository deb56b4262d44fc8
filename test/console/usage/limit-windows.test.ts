import { describe, expect, test } from 'vitest'
import type { PrepareReload } from '../../../src/config/reloadable.ts'
import type { Config } from '../../../src/config/schema/schema.ts'
import { parseCounters } from '../../../src/console/announcing/read-counters.ts'
import { limitsCard } from '../../../src/console/usage/pages.ts'
import { createLimitReader, listWindows } from '../../../src/console/usage/read-limits.ts'
import { policiesOfPlan } from '../../../src/domain/rate-limit.ts'

const NOW_MS = Date.UTC(2026, 10, 26, 12)
const MONTH_ENDS_MS = Date.UTC(2026, 11, 1)
const minute = { name: 'minute', per: 'key', requests: 60, windowSeconds: 60 } as const
const quota = { name: 'quota', per: 'workspace', requests: 10_000, window: 'month' } as const
const POLICIES = [minute, quota]
const read = (used: number, endsInMs: number) => ({ used, endsInMs })

describe('what is left of a window', () => {
  test('is the limit without what was used, until the window ends', () => {
    expect(listWindows(POLICIES, [read(12, 40_000), read(1_000, 9_000_000_000)], NOW_MS)).toEqual([
      { policy: minute, remaining: 48, resetsAtMs: NOW_MS + 40_000 },
      // Redis keeps the counter of a month for a day after its end.
      { policy: quota, remaining: 9_000, resetsAtMs: MONTH_ENDS_MS },
    ])
  })

  test('is never below zero, though requests above the limit are counted too', () => {
    expect(listWindows([minute], [read(75, 1)], NOW_MS)).toMatchObject([{ remaining: 0 }])
  })

  test('is the whole limit where nothing was counted: a window of seconds has not begun, a month has', () => {
    expect(listWindows(POLICIES, [null, null], NOW_MS)).toEqual([
      { policy: minute, remaining: 60, resetsAtMs: null },
      { policy: quota, remaining: 10_000, resetsAtMs: MONTH_ENDS_MS },
    ])
  })

  test.each(['off', 'denied', 'failed'] as const)(
    'is unknown, not zero, without an answer of Redis: %s',
    why => {
      expect(listWindows(POLICIES, why, NOW_MS)).toEqual([
        { policy: minute, remaining: null, resetsAtMs: null },
        { policy: quota, remaining: null, resetsAtMs: MONTH_ENDS_MS },
      ])
    },
  )
})

describe('the reply of Redis', () => {
  const reply = (...values: readonly (string | number)[]) =>
    parseCounters(values.map(value => (typeof value === 'string' ? Buffer.from(value) : value)))

  test('gives each counter in order, and null for one that does not exist or ended while it was read', () => {
    expect(reply('7', 900, '', -2, '3', -2, '', 5)).toEqual([read(7, 900), null, null, null])
  })

  test('gives a counter without a time to live no end of its own', () => {
    expect(reply('7', -1)).toEqual([read(7, Number.POSITIVE_INFINITY)])
  })

  test('is of no use where it holds another text than a whole number', () => {
    for (const text of ['-1', '1.5', '1e3', 'x', '1234567890123456']) expect(reply(text, 5)).toBe('failed')
  })

  test('says that the right is missing', () => {
    expect(parseCounters(Buffer.from('denied'))).toBe('denied')
    expect(parseCounters(Buffer.from('unreadable'))).toBe('failed')
  })
})

test('a plan’s policies stand in the place of those of keys without a plan; an unknown plan counts as none', () => {
  const settings = { policies: [minute], plans: { free: { policies: [quota] } } }
  expect(policiesOfPlan(settings, 'free')).toEqual({ plan: 'free', policies: [quota] })
  for (const plan of [null, 'gold', 'constructor']) {
    expect(policiesOfPlan(settings, plan)).toEqual({ plan: null, policies: [minute] })
  }
})

test('where the settings name regions, each policy is shown for each region, and which region does not answer', () => {
  const regions = [
    { region: 'eu', windows: listWindows([minute], [read(12, 40_000)], NOW_MS), unknown: null },
    { region: 'us', windows: listWindows([minute], 'failed', NOW_MS), unknown: 'failed' as const },
  ]
  const text = plain(limitsCard({ plan: 'free', regions }, NOW_MS))
  expect(text).toContain('What is left in region us is unknown: Redis gave this console no usable answer.')
  expect(text).toContain('minute Region eu Counts this key Limit 60 a minute Left 48')
  expect(text).toContain('minute Region us Counts this key Limit 60 a minute Left unknown')
})

describe('a console', () => {
  const daily = { name: 'daily', per: 'workspace', windowSeconds: 86_400 } as const
  const limits = (requests: number): Config['limits'] => ({
    replicas: 1,
    policies: [{ ...daily, requests }],
    plans: { free: { policies: [minute, quota] } },
  })

  /** One region counts; the other does not answer. */
  function reader() {
    const asked: string[][] = []
    let prepare: PrepareReload<Pick<Config, 'limits'>> = () => () => {}
    const eu = {
      readCounters: async (_: string, names: readonly string[]) => {
        asked.push([...names])
        return names.map(() => read(10, 30_000))
      },
    }
    const us = { readCounters: async () => 'failed' as const }
    const list = [
      { name: 'eu', announcer: eu },
      { name: 'us', announcer: us },
    ]
    const created = createLimitReader({
      config: { limits: limits(500) },
      onReload: given => {
        prepare = given
      },
      clock: { wallMs: () => NOW_MS },
      regions: { areNamed: true, list },
    })
    return { ...created, asked, reload: (requests: number) => prepare({ limits: limits(requests) })() }
  }

  test('reads the counters of the policies of a key, under the names that gateways use, in each region', async () => {
    const { ofKey, asked } = reader()
    const { plan, regions } = await ofKey({ workspaceId: 'ws_1', id: 'key_1', plan: 'free' })
    expect(asked).toEqual([['postern:limit:{ws_1}:minute:60:key_1', 'postern:limit:{ws_1}:quota:2026-11']])
    const left = regions.map(({ region, unknown, windows }) => [
      region,
      unknown,
      windows.map(({ remaining }) => remaining),
    ])
    expect([plan, left]).toEqual([
      'free',
      [
        ['eu', null, [50, 9_990]],
        ['us', 'failed', [null, null]],
      ],
    ])
  })

  test('shows for a workspace the policies of its plan that count all its keys', async () => {
    const { ofWorkspace, asked } = reader()
    expect(await ofWorkspace('ws_1', 'free')).toMatchObject({ plan: 'free' })
    expect(await ofWorkspace('ws_1', null)).toMatchObject({ plan: null })
    expect(asked).toEqual([['postern:limit:{ws_1}:quota:2026-11'], ['postern:limit:{ws_1}:daily:86400']])
  })

  test('takes over limits that change while it runs', async () => {
    const { ofWorkspace, reload } = reader()
    reload(20)
    const { regions } = await ofWorkspace('ws_1', null)
    expect(regions[0]?.windows).toMatchObject([{ policy: { requests: 20 }, remaining: 10 }])
  })
})

test('a page says nothing of limits where there is no policy', () => {
  expect(limitsCard({ plan: 'internal', regions: [] }, NOW_MS)).toBe(null)
})

function plain(markup: unknown): string {
  return String(markup)
    .replace(/<[^>]*>/g, ' ')
    .replace(/\s+/g, ' ')
}
