import { expect, onTestFinished, test } from 'vitest'
import { createDeliveries } from '../../../src/console/webhooks/dispatcher.ts'
import {
  closeReceiver,
  MAX_RETRY_DELAY_MS,
  type ReceiverKind,
  type WebhookEvent,
} from '../../../src/console/webhooks/rows.ts'
import { openDatabase } from '../../support/open-database.ts'
import { NOW_MS } from '../../support/stored-keys.ts'

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
const KEPT_MS = 30 * DAY_MS

async function started() {
  const database = await openDatabase('sqlite::memory:')
  onTestFinished(() => database.close())
  let nowMs = NOW_MS
  const clock = { wallMs: () => nowMs, monotonicMs: () => nowMs }
  const deliveries = createDeliveries(database, clock, () => 'msg_test')
  const event = (id: string, more: Partial<WebhookEvent> = {}): WebhookEvent => ({
    ...{ receiver: 'operator', id, workspaceId: 'ws_1', keyId: 'key_1', type: 'key.issued' },
    ...{ deduplicationKey: id, atMs: nowMs, body: `{"id":"${id}"}`, ...more },
  })
  const open = (...receivers: string[]) =>
    database.writer
      .insertInto('webhook_receivers')
      .values(
        receivers.map(receiver => ({
          ...{ receiver, claimed_until_ms: 0, failures: 0, paused_until_ms: 0, attempted_at_ms: 0 },
        })),
      )
      .execute()
  const claim = (kind: ReceiverKind, receivers = 9, eventsOfEach = 9) =>
    deliveries.claim({ kind, receivers, eventsOfEach, forMs: 5_000 })
  const list = async (kind: ReceiverKind = 'operator', workspaceId = 'ws_1') =>
    (await deliveries.log(kind).list({ workspaceId, limit: 50, afterId: null })).deliveries
  const pass = (ms: number) => {
    nowMs += ms
  }
  return { database, deliveries, event, open, claim, list, pass }
}

test('a look for due events takes no longer with ten thousand webhooks of which none is due', async () => {
  const fastestMs = async (receivers: number) => {
    const { open, claim, deliveries, event } = await started()
    const ids = Array.from({ length: receivers }, (_, index) => `ws_${index}`)
    for (let from = 0; from < receivers; from += 1000) await open(...ids.slice(from, from + 1000))
    await deliveries.insert(
      ids.slice(0, 100).map(id => event(id, { receiver: 'workspace', workspaceId: id })),
    )
    for (const kind of ['workspace', 'operator'] as const) await claim(kind, 200, 200)
    const tookMs: number[] = []
    for (let count = 0; count < 20; count++) {
      const atMs = performance.now()
      expect(await claim('workspace')).toEqual([])
      tookMs.push(performance.now() - atMs)
    }
    return Math.min(...tookMs)
  }
  expect(await fastestMs(10_000)).toBeLessThan(4 * (await fastestMs(100)))
})

test('an event waits, and each attempt leaves what a person needs to know of it', async () => {
  const { deliveries, event, claim, list, pass } = await started()
  await deliveries.insert([event('msg_1')])
  const about = { id: 'msg_1', type: 'key.issued', keyId: 'key_1', atMs: NOW_MS }
  const waiting = { ...about, attempts: 0, deliveredAtMs: null, lastStatus: null, lastError: null }
  expect(await list()).toEqual([{ ...waiting, nextAttemptAtMs: NOW_MS }])
  const [claimed] = await claim('operator')
  const body = '{"id":"msg_1"}'
  expect(claimed).toEqual({
    receiver: '',
    failures: 0,
    due: [{ receiver: '', id: 'msg_1', body, attempts: 0 }],
  })
  const [due] = claimed?.due ?? []
  if (due === undefined) throw new Error('Nothing is due')
  const failed = { kind: 'failed', status: 500, reason: 'Response status 500' } as const
  await deliveries.recordAttempt(due, { ...failed, dueAtMs: NOW_MS + 60_000 })
  const once = {
    ...about,
    attempts: 1,
    deliveredAtMs: null,
    lastStatus: 500,
    lastError: 'Response status 500',
  }
  expect(await list()).toEqual([{ ...once, nextAttemptAtMs: NOW_MS + 60_000 }])
  await deliveries.recordAttempt({ ...due, attempts: 1 }, { ...failed, status: null, dueAtMs: null })
  expect(await list()).toEqual([{ ...once, attempts: 2, lastStatus: null, nextAttemptAtMs: null }])
  pass(1_000)
  await deliveries.recordAttempt({ ...due, attempts: 2 }, { kind: 'delivered', status: 204 })
  const done = {
    attempts: 3,
    deliveredAtMs: NOW_MS + 1_000,
    nextAttemptAtMs: null,
    lastStatus: 204,
    lastError: null,
  }
  expect(await list()).toEqual([{ ...about, ...done }])
})

test('an event that several consoles notice is stored once, and those of a workspace without a webhook are not', async () => {
  const { deliveries, event, open, list } = await started()
  await open('ws_1')
  const own = (id: string, more = {}) => event(id, { receiver: 'workspace', ...more })
  await deliveries.insert([event('msg_1'), event('msg_2', { deduplicationKey: 'msg_1' }), own('msg_3')])
  await deliveries.insert([
    own('msg_4', { deduplicationKey: 'msg_3' }),
    own('msg_5', { workspaceId: 'ws_2' }),
  ])
  expect((await list()).map(({ id }) => id)).toEqual(['msg_1'])
  expect((await list('workspace')).map(({ id }) => id)).toEqual(['msg_3'])
  expect(await list('workspace', 'ws_2')).toEqual([])
})

test('a console claims the receivers that waited longest, and their oldest events; others leave them alone until then', async () => {
  const { deliveries, event, open, claim, pass } = await started()
  await open('ws_1', 'ws_2', 'ws_3')
  const of = (workspaceId: string, ...ids: string[]) =>
    ids.map(id => event(`msg_${id}`, { receiver: 'workspace', workspaceId }))
  await deliveries.insert(of('ws_2', 'b2'))
  pass(1)
  await deliveries.insert([...of('ws_1', 'a3', 'a1', 'a2'), ...of('ws_3', 'c1'), event('msg_o')])
  const names = (claimed: Awaited<ReturnType<typeof claim>>) =>
    claimed.map(({ receiver, due }) => [receiver, ...due.map(({ id }) => id).sort()])
  expect(names(await claim('workspace', 2, 2))).toEqual([
    ['ws_1', 'msg_a1', 'msg_a2'],
    ['ws_2', 'msg_b2'],
  ])
  expect(names(await claim('workspace'))).toEqual([['ws_3', 'msg_c1']])
  expect(names(await claim('workspace'))).toEqual([])
  expect(names(await claim('operator'))).toEqual([['', 'msg_o']])
  pass(4_999)
  expect(names(await claim('workspace'))).toEqual([])
  pass(1)
  expect(names(await claim('workspace', 1)).map(([receiver]) => receiver)).toEqual(['ws_1'])
})

test('a receiver that was released rests until it may be tried again, and its failures go on counting', async () => {
  const { deliveries, event, claim, pass } = await started()
  await deliveries.insert([event('msg_1')])
  await claim('operator')
  await deliveries.release('', { failures: 3, pausedUntilMs: NOW_MS + 10_000 })
  pass(9_999)
  expect(await claim('operator')).toEqual([])
  pass(1)
  expect(await claim('operator')).toMatchObject([{ receiver: '', failures: 3, due: [{ id: 'msg_1' }] }])
})

test('a clock that is set back by an hour holds up no receiver for that hour, neither by a rest nor by the claim of a console that died', async () => {
  const { deliveries, event, open, claim, pass } = await started()
  await open('ws_1', 'ws_2')
  const own = (workspaceId: string, id: string) => event(id, { receiver: 'workspace', workspaceId })
  await deliveries.insert([own('ws_1', 'msg_1'), own('ws_2', 'msg_2')])
  await claim('workspace')
  await deliveries.release('ws_1', { failures: 1, pausedUntilMs: NOW_MS + 60_000 })
  pass(-HOUR_MS)
  await deliveries.insert([own('ws_1', 'msg_3'), own('ws_2', 'msg_4')])
  expect(await claim('workspace')).toMatchObject([
    { receiver: 'ws_1', due: [{ id: 'msg_1' }, { id: 'msg_3' }] },
    { receiver: 'ws_2', due: [{ id: 'msg_2' }, { id: 'msg_4' }] },
  ])
})

test('an event is sent at once after the clock was set back, and once more only after the wait of its failed attempt', async () => {
  const { deliveries, event, claim, pass } = await started()
  await deliveries.insert([event('msg_1')])
  pass(-HOUR_MS)
  const [due] = (await claim('operator'))[0]?.due ?? []
  if (due === undefined) throw new Error('Nothing is due')
  expect(due.id).toBe('msg_1')
  const failed = { kind: 'failed', status: 500, reason: 'Response status 500' } as const
  await deliveries.recordAttempt(due, { ...failed, dueAtMs: NOW_MS - HOUR_MS + 300_000 })
  await deliveries.release('', { failures: 1, pausedUntilMs: 0 })
  pass(299_999)
  expect(await claim('operator')).toEqual([])
  pass(1)
  expect(await claim('operator')).toMatchObject([{ due: [{ id: 'msg_1' }] }])
})

test.each([
  ['operator', ''],
  ['workspace', 'ws_1'],
] as const)(
  'a retry for the %s that a clock ahead by years has planned is due once the clock is right',
  async (kind, receiver) => {
    const { deliveries, event, open, claim, list, pass } = await started()
    await open('ws_1')
    await deliveries.insert([event('msg_1', { receiver: kind })])
    pass(1_000 * DAY_MS)
    const [due] = (await claim(kind))[0]?.due ?? []
    if (due === undefined) throw new Error('Nothing is due')
    const failed = { kind: 'failed', status: 500, reason: 'Response status 500' } as const
    await deliveries.recordAttempt(due, { ...failed, dueAtMs: NOW_MS + 1_000 * DAY_MS + 5_000 })
    await deliveries.release(receiver, { failures: 1, pausedUntilMs: 0 })
    pass(-1_000 * DAY_MS)
    expect(await claim(kind)).toMatchObject([{ receiver, due: [{ id: 'msg_1', attempts: 1 }] }])
    await deliveries.recordAttempt(
      { ...due, attempts: 1 },
      { ...failed, dueAtMs: NOW_MS + MAX_RETRY_DELAY_MS },
    )
    await deliveries.release(receiver, { failures: 2, pausedUntilMs: 0 })
    // The longest wait of all is no mistake.
    expect(await claim(kind)).toEqual([])
    expect(await list(kind)).toMatchObject([{ attempts: 2, nextAttemptAtMs: NOW_MS + MAX_RETRY_DELAY_MS }])
  },
)

test('an event is sent again only where it was delivered or given up, and only of its own workspace', async () => {
  const { deliveries, event, claim, list, pass } = await started()
  await deliveries.insert([event('msg_1')])
  const again = (workspaceId: string, id = 'msg_1') =>
    deliveries.log('operator').sendAgain({ workspaceId, id })
  const nextAt = async () => (await list())[0]?.nextAttemptAtMs
  pass(1_000)
  await again('ws_1')
  expect(await nextAt()).toBe(NOW_MS)
  const [due] = (await claim('operator'))[0]?.due ?? []
  if (due === undefined) throw new Error('Nothing is due')
  await deliveries.recordAttempt(due, { kind: 'delivered', status: 200 })
  await again('ws_2')
  await again('ws_1', 'msg_2')
  await deliveries.log('workspace').sendAgain({ workspaceId: 'ws_1', id: 'msg_1' })
  expect(await nextAt()).toBeNull()
  pass(1_000)
  await again('ws_1')
  expect(await list()).toMatchObject([{ nextAttemptAtMs: NOW_MS + 2_000, deliveredAtMs: null, attempts: 1 }])
})

test('an event of a workspace whose webhook was removed is not sent again, and does not wait for one', async () => {
  const { database, deliveries, event, open, list } = await started()
  await open('ws_1')
  await deliveries.insert([event('msg_1', { receiver: 'workspace' })])
  await database.changes.run(tx => closeReceiver(tx, 'ws_1', 'removed'))
  await deliveries.log('workspace').sendAgain({ workspaceId: 'ws_1', id: 'msg_1' })
  expect(await list('workspace')).toMatchObject([{ nextAttemptAtMs: null, lastError: 'removed' }])
})

test('deliveries are listed newest first, page by page', async () => {
  const { deliveries, event } = await started()
  await deliveries.insert(['msg_1', 'msg_3', 'msg_2'].map(id => event(id)))
  const page = async (afterId: string | null) => {
    const found = await deliveries.log('operator').list({ workspaceId: 'ws_1', limit: 2, afterId })
    return [...found.deliveries.map(({ id }) => id), found.nextAfterId]
  }
  expect(await page(null)).toEqual(['msg_3', 'msg_2', 'msg_2'])
  expect(await page('msg_2')).toEqual(['msg_1', null])
})

test('what is over is deleted after 30 days, however much it is; what an operator’s webhook still waits for stays', async () => {
  const { database, deliveries, event, open, pass } = await started()
  await open('ws_1')
  const many = Array.from({ length: 1_001 }, (_, index) => event(`msg_${index}`))
  await deliveries.insert(many)
  await database.writer.updateTable('webhook_deliveries').set({ due_at_ms: null }).execute()
  await deliveries.insert([event('msg_waits'), event('msg_own', { receiver: 'workspace' })])
  const left = async () =>
    (await database.reader.selectFrom('webhook_deliveries').select('id').orderBy('id').execute()).map(
      ({ id }) => id,
    )
  pass(KEPT_MS)
  await deliveries.purge()
  expect(await left()).toHaveLength(1_003)
  pass(1)
  await deliveries.purge()
  expect(await left()).toEqual(['msg_waits'])
})
