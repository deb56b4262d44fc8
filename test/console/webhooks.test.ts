import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import pino from 'pino'
import { Webhook } from 'standardwebhooks'
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { neverReloads, type PrepareReload } from '../../src/config/reloadable.ts'
import type { Config } from '../../src/config/schema/schema.ts'
import { createIds } from '../../src/console/platform/database/ids.ts'
import { toKeyRow } from '../../src/console/platform/database/key-row.ts'
import { createOperatorChannel } from '../../src/console/webhooks/channels.ts'
import {
  createDeliveries,
  type Deliveries,
  Dispatcher,
  retryDelayMs,
} from '../../src/console/webhooks/dispatcher.ts'
import { WARNING_DAYS } from '../../src/console/webhooks/events.ts'
import { expirySpans, recordExpiries } from '../../src/console/webhooks/expiry-watch.ts'
import { type DueDelivery, MAX_RETRY_DELAY_MS } from '../../src/console/webhooks/rows.ts'
import type { StoredKey } from '../../src/domain/key/key-record.ts'
import { NO_PROXIES } from '../../src/domain/proxy.ts'
import { createMetrics } from '../../src/observability/metrics/metrics.ts'
import { beyondFast } from '../support/beyond-fast.ts'
import { consoleConfig, type RunningConsole, startConsole } from '../support/console.ts'
import { ManualTimers } from '../support/manual-timers.ts'
import { metricValue } from '../support/metric-value.ts'
import { openDatabase } from '../support/open-database.ts'
import { PostgresServer } from '../support/postgres-server.ts'
import { createRepository, insert } from '../support/repository.ts'
import { NOW_MS, someKey } from '../support/stored-keys.ts'
import { databaseDirectory } from '../support/temporary-directory.ts'
import { has, POSTGRES } from '../support/tools.ts'
import { until } from '../support/until.ts'
import { WebhookReceiver } from '../support/webhook-receiver.ts'

const DAY_MS = 86_400_000
const HOUR_MS = 3_600_000
const SECRET = `whsec_${randomBytes(32).toString('base64')}`
/** A change that is delivered at once. */
const EXPIRED = someKey({ createdAtMs: NOW_MS - 90 * DAY_MS, expiresAtMs: NOW_MS - HOUR_MS })
const ISSUE = { name: 'reader', scopes: ['files:read'] }

let receiver: WebhookReceiver
beforeEach(async () => {
  receiver = await WebhookReceiver.start()
  onTestFinished(() => receiver.stop())
})

const webhook = (more = {}) => ({ url: receiver.url, secret: SECRET, ...more })

async function issue({ send }: RunningConsole, more = {}) {
  return (await send('POST', '/admin/v1/workspaces/ws_1/keys', { ...ISSUE, ...more })).body
}

async function deliveries({ send }: RunningConsole): Promise<Record<string, unknown>[]> {
  const { text } = await send('GET', '/admin/v1/workspaces/ws_1/deliveries')
  return JSON.parse(text).deliveries
}

/** A dispatcher over a database with keys, on a clock that only the test moves. */
async function startDispatcher(keys: readonly StoredKey[] = []) {
  const database = await openDatabase('sqlite::memory:')
  onTestFinished(() => database.close())
  let nowMs = NOW_MS
  const clock = { wallMs: () => nowMs, monotonicMs: () => nowMs }
  const repository = createRepository(database, clock, 'console-1')
  for (const key of keys) await insert(repository, key)
  const newEventId = createIds('msg', randomBytes)
  const deliveries = createDeliveries(database, clock, newEventId)
  const metrics = createMetrics()
  const lines: string[] = []
  const logger = pino({ level: 'debug' }, { write: line => void lines.push(line) })
  const channels = [createOperatorChannel({ ...webhook(), timeoutMs: 2_000 }, NO_PROXIES, neverReloads)]
  const timers = new ManualTimers()
  const parts = { deliveries, clock, timers, logger, metrics, random: () => 0 }
  const dispatcher = new Dispatcher({ ...parts, channels })
  onTestFinished(() => dispatcher.stop())
  const watched = { ...parts, reader: database.reader, receivers: ['operator'], newEventId } as const
  /** A while passes in steps, after each of which is done what a console does. */
  const pass = async (ms: number, stepMs: number) => {
    for (const endMs = nowMs + ms; nowMs < endMs; ) {
      nowMs += stepMs
      await recordExpiries(watched)
      await dispatcher.deliver()
    }
  }
  const log = async () =>
    (await deliveries.log('operator').list({ workspaceId: 'ws_1', limit: 50, afterId: null })).deliveries
  return { pass, log, metrics, lines, database, watched }
}

describe('a webhook', () => {
  test('receives an event for each change to a key, with a signature that the Standard Webhooks library verifies', async () => {
    const running = await startConsole({ webhook: webhook() })
    const { key, secret } = await issue(running)
    const rotated = (await running.send('POST', `/admin/v1/keys/${key.id}/rotate`, {})).body
    await running.send('POST', `/admin/v1/keys/${key.id}/revoke`)
    await until('all three events arrive', () => receiver.received.length === 3)

    const delivered = receiver.received.map(({ body, headers }) =>
      // The library gives back what it verified as JSON; what that is, is asserted below.
      new Webhook(SECRET).verify(body, headers as Record<string, string>),
    ) as { type: string; data: { key: { id: string }; actor: string; successor?: { id: string } } }[]
    const byType = new Map(delivered.map(message => [message.type, message.data]))
    expect([...byType.keys()].sort()).toEqual(['key.issued', 'key.revoked', 'key.rotated'])
    expect(byType.get('key.issued')).toMatchObject({
      key: { id: key.id, state: 'active' },
      actor: 'admin-token',
    })
    expect(byType.get('key.rotated')).toMatchObject({
      key: { id: key.id, replacedBy: rotated.key.id, state: 'retiring' },
      successor: { id: rotated.key.id },
    })
    const ended = { key: { id: key.id, state: 'revoked' }, reason: 'request' }
    expect(byType.get('key.revoked')).toMatchObject(ended)
    const all = receiver.received.map(({ body }) => body).join()
    for (const part of [secret, rotated.secret]) expect(all).not.toContain(part.slice(4, 40))
    expect(all).not.toContain('digest')
    expect(receiver.received[0]?.url).toBe('/hooks/postern')
  })

  test('has its new secret as soon as the console has reloaded it, and keeps one', async () => {
    const prepared: PrepareReload<Config>[] = []
    const onReload = (prepare: PrepareReload<Config>) => void prepared.push(prepare)
    const running = await startConsole({ webhook: webhook(), parts: { onReload } })
    const reload = (next: object) =>
      prepared.map(prepare => prepare(consoleConfig({ webhook: { url: receiver.url, ...next } })))
    expect(() => reload({})).toThrow('console.webhook.secret: is required with console.webhook.url')
    const secret = `whsec_${randomBytes(32).toString('base64')}`
    for (const commit of reload({ secret })) commit()
    await issue(running)
    await until('the event has arrived', () => receiver.received.length === 1)
    const [message] = receiver.received
    const headers = message?.headers as Record<string, string>
    expect(new Webhook(secret).verify(message?.body ?? '', headers)).toMatchObject({ type: 'key.issued' })
  })

  test('receives two events for a rotation without overlap: a rotation and a revocation', async () => {
    const running = await startConsole({ webhook: webhook() })
    const { key } = await issue(running)
    const rotated = await running.send('POST', `/admin/v1/keys/${key.id}/rotate`, { overlapSeconds: 0 })
    await until('all three events arrive', () => receiver.received.length === 3)
    expect((await deliveries(running)).map(({ type }) => type)).toEqual([
      'key.revoked',
      'key.rotated',
      'key.issued',
    ])
    const delivered = receiver.received.map(({ body }) => JSON.parse(body))
    const about = { id: key.id, state: 'revoked', replacedBy: rotated.body.key.id }
    expect(delivered.find(({ type }) => type === 'key.revoked')?.data).toMatchObject({
      key: about,
      actor: 'admin-token',
      reason: 'rotation',
    })
    expect(delivered.find(({ type }) => type === 'key.rotated')?.data).toMatchObject({
      key: about,
      successor: { id: rotated.body.key.id },
    })
  })

  test('receives no event for a request that changed nothing, such as a second revocation or a failed rotation', async () => {
    const running = await startConsole({ webhook: webhook() })
    const { key } = await issue(running)
    for (let again = 0; again < 3; again++) await running.send('POST', `/admin/v1/keys/${key.id}/revoke`)
    expect((await running.send('POST', `/admin/v1/keys/${key.id}/rotate`, {})).status).toBe(409)
    await until('the others are delivered', () => receiver.received.length === 2)
    expect((await deliveries(running)).map(({ type }) => type)).toEqual(['key.revoked', 'key.issued'])
  })

  test('that is down delays no operation', async () => {
    const running = await startConsole({ webhook: webhook() })
    receiver.answer = () => {}
    expect((await issue(running)).key.state).toBe('active')
    expect(await deliveries(running)).toMatchObject([{ state: 'waiting', attempts: 0 }])
  })

  test('receives events after an outage, with the same id', async () => {
    const { pass, log } = await startDispatcher([EXPIRED])
    receiver.answer = (response, number) => response.writeHead(number < 3 ? 500 : 204).end()
    await pass(70_000, 1_000)
    expect(receiver.received).toHaveLength(3)
    expect(new Set(receiver.received.map(({ headers }) => headers['webhook-id'])).size).toBe(1)
    expect(await log()).toMatchObject([
      { attempts: 3, lastStatus: 204, lastError: null, nextAttemptAtMs: null },
    ])
  })

  test('gets no more attempts after nine failures, which is logged and counted', async () => {
    const { pass, log, metrics, lines } = await startDispatcher([EXPIRED])
    receiver.answer = response => response.writeHead(503).end('not now')
    await pass(40 * HOUR_MS, HOUR_MS / 2)
    expect(receiver.received).toHaveLength(9)
    const given = {
      attempts: 9,
      lastStatus: 503,
      lastError: 'Response status 503',
      deliveredAtMs: null,
      nextAttemptAtMs: null,
    }
    expect(await log()).toMatchObject([given])
    expect(lines.join()).toContain('webhook delivery given up')
    expect(await metricValue(metrics.webhookDeliveries, { receiver: 'operator', outcome: 'given_up' })).toBe(
      1,
    )
    expect(await metricValue(metrics.webhookDeliveries, { receiver: 'operator', outcome: 'failed' })).toBe(8)
  })

  test('counts a redirect as a failure and does not follow it', async () => {
    const running = await startConsole({ webhook: webhook() })
    receiver.answer = response => response.writeHead(307, { location: '/elsewhere' }).end()
    await issue(running)
    await until('it failed', async () => (await deliveries(running))[0]?.['lastStatus'] === 307)
    expect(receiver.received.map(({ url }) => url)).not.toContain('/elsewhere')
  })

  test('times out if it never responds', async () => {
    const running = await startConsole({ webhook: webhook({ timeoutMs: 100 }) })
    receiver.answer = () => {}
    await issue(running)
    await until('it failed', async () => {
      return (await deliveries(running))[0]?.['lastError'] === 'No response within 100 ms'
    })
  })

  test('may send an endless response: only its beginning is read', async () => {
    const running = await startConsole({ webhook: webhook({ timeoutMs: 60_000 }) })
    receiver.answer = response => {
      response.writeHead(200)
      const flood = () => {
        while (!response.destroyed && response.write(Buffer.alloc(64 * 1024))) {}
      }
      response.on('drain', flood)
      flood()
    }
    await issue(running)
    await until('it has arrived', async () => (await deliveries(running))[0]?.['lastStatus'] === 200)
  })

  test('without a webhook no event is stored', async () => {
    const running = await startConsole()
    await issue(running)
    expect(await deliveries(running)).toEqual([])
  })
})

describe('of a key that expires', () => {
  test('the webhook receives one event 14, 3 and 1 days before expiry, and one at expiry', async () => {
    const { pass } = await startDispatcher([someKey({ expiresAtMs: NOW_MS + 20 * DAY_MS })])
    await pass(25 * DAY_MS, HOUR_MS)
    const delivered = receiver.received.map(({ body }) => JSON.parse(body))
    expect(delivered.map(({ type, data }) => [type, data.withinDays])).toEqual([
      ['key.expiring', 14],
      ['key.expiring', 3],
      ['key.expiring', 1],
      ['key.expired', undefined],
    ])
    for (const { timestamp, data } of delivered) {
      const leftMs = Date.parse(data.key.expiresAt) - Date.parse(timestamp)
      expect((data.withinDays ?? 0) * DAY_MS - leftMs).toBeGreaterThanOrEqual(0)
      expect((data.withinDays ?? 0) * DAY_MS - leftMs).toBeLessThan(HOUR_MS)
    }
  })

  test.each([
    ['was issued for less', { expiresAtMs: NOW_MS + 20 * HOUR_MS }, ['key.expired']],
    ['was replaced', { expiresAtMs: NOW_MS + 20 * DAY_MS, replacedBy: 'key_x' }, ['key.expired']],
    ['was revoked', { expiresAtMs: NOW_MS + 20 * DAY_MS, revokedAtMs: NOW_MS }, []],
    ['expired long ago', { expiresAtMs: NOW_MS - 2 * DAY_MS, createdAtMs: NOW_MS - 60 * DAY_MS }, []],
  ])('and %s, no unnecessary warning is sent', async (_, key, types) => {
    const { pass } = await startDispatcher([someKey(key)])
    await pass(25 * DAY_MS, HOUR_MS)
    expect(receiver.types).toEqual(types)
  })
})

test('a key that expires after a thousand others with their events has its own at once', async () => {
  const expiresAtMs = NOW_MS + 10 * DAY_MS
  const keys = Array.from({ length: 1_001 }, (_, at) =>
    someKey({ createdAtMs: NOW_MS - 80 * DAY_MS, expiresAtMs: expiresAtMs + at }),
  )
  const { database, watched } = await startDispatcher(keys.slice(0, -1))
  // 500 at a time.
  for (let passes = 0; passes < 2; passes++) await recordExpiries(watched)
  const last = keys.slice(-1)
  await database.writer
    .insertInto('keys')
    .values(last.map(key => toKeyRow(key, NOW_MS)))
    .execute()
  await recordExpiries(watched)
  const events = database.reader.selectFrom('webhook_deliveries').select(['key_id', 'type'])
  const [event] = await events.where('key_id', '=', last[0]?.record.id ?? '').execute()
  expect(event?.type).toBe('key.expiring')
})

test('a file of authorities without a certificate is refused: it would trust no receiver', () => {
  const wrong = { ...webhook(), caFile: import.meta.filename, timeoutMs: 2_000 }
  expect(() => createOperatorChannel(wrong, NO_PROXIES, neverReloads)).toThrow(
    'console.webhook.caFile: the file contains no PEM certificate',
  )
})

test('the page shows how to verify a message, in code that works', async () => {
  const page = readFileSync(new URL('../../docs/webhooks.md', import.meta.url), 'utf8')
  const [, code = ''] = /^```js\n([\s\S]*?)^```$/m.exec(page) ?? []
  const { verify } = await import(`data:text/javascript,${encodeURIComponent(code)}`)
  const running = await startConsole({ webhook: webhook() })
  await issue(running)
  await until('the event arrives', () => receiver.received.length === 1)
  const [message] = receiver.received
  expect(verify(message?.headers, message?.body, SECRET)).toMatchObject({ type: 'key.issued' })
  expect(() => verify(message?.headers, `${message?.body} `, SECRET)).toThrow('signature is wrong')
  const late = { ...message?.headers, 'webhook-timestamp': '1700000000' }
  expect(() => verify(late, message?.body, SECRET)).toThrow('too old')
})

const DATABASES = [['SQLite', true] as const, ...beyondFast(['PostgreSQL', has(POSTGRES)] as const)]

describe.each(DATABASES)('several consoles on one database (%s)', (name, isThere) => {
  /** Two consoles' views of webhook events, over a database with a key that is about to expire. */
  async function open() {
    const url = name === 'SQLite' ? `sqlite:${databaseDirectory()}/a.db` : await freshPostgres()
    const databases = [await openDatabase(url), await openDatabase(url)] as const
    onTestFinished(async () => {
      for (const database of databases) await database.close()
    })
    let nowMs = NOW_MS
    const clock = { wallMs: () => nowMs, monotonicMs: () => nowMs }
    const [first, second] = databases
    const repository = createRepository(first, clock, 'console-1')
    await insert(
      repository,
      someKey({ createdAtMs: NOW_MS - 80 * DAY_MS, expiresAtMs: NOW_MS + 10 * DAY_MS }),
    )
    let ids = 0
    const newEventId = () => `msg_${++ids}`
    const consoles = [
      createDeliveries(first, clock, newEventId),
      createDeliveries(second, clock, newEventId),
    ] as const
    const record = (deliveries: Deliveries) =>
      recordExpiries({ reader: first.reader, receivers: ['operator'], deliveries, clock, newEventId })
    return { consoles, record, pass: (ms: number) => (nowMs += ms) }
  }

  const CLAIM = { kind: 'operator', receivers: 1, eventsOfEach: 10, forMs: 5_000 } as const
  const claim = async (deliveries: Deliveries) => (await deliveries.claim(CLAIM)).flatMap(({ due }) => due)

  /** As a console does that stays. */
  async function attempt(deliveries: Deliveries, due: DueDelivery): Promise<void> {
    await deliveries.recordAttempt(due, { kind: 'delivered', status: 200 })
    await deliveries.release(due.receiver, { failures: 0, pausedUntilMs: 0 })
  }

  async function freshPostgres(): Promise<string> {
    const server = await PostgresServer.started()
    onTestFinished(() => server.stop())
    return server.migratedDatabase()
  }

  test.skipIf(!isThere)(
    'store and send each event once, and take over the deliveries of a console that died',
    async () => {
      const { consoles, record, pass } = await open()
      const [one, other] = consoles
      await Promise.all(consoles.map(record))
      const claimed = [...(await claim(one)), ...(await claim(other))]
      expect(claimed).toHaveLength(1)
      pass(5_000)
      const [takenOver] = await claim(other)
      expect(takenOver?.id).toBe(claimed[0]?.id)
      if (takenOver !== undefined) await attempt(other, takenOver)
      expect(await claim(one)).toEqual([])
      await record(one)
      expect(await claim(one)).toEqual([])
    },
  )

  test.skipIf(!isThere)('send an event again for its own workspace alone', async () => {
    const { consoles, record } = await open()
    const [first] = consoles
    await record(first)
    const [due] = await claim(first)
    if (due === undefined) throw new Error('The expiry of the key is due')
    await attempt(first, due)
    const { sendAgain } = first.log('operator')
    await sendAgain({ workspaceId: 'ws_2', id: due.id })
    expect(await claim(first)).toEqual([])
    await sendAgain({ workspaceId: 'ws_1', id: due.id })
    expect(await claim(first)).toMatchObject([{ id: due.id, attempts: 1 }])
  })

  test.skipIf(!isThere)('delete delivered events after 30 days, and never pending ones', async () => {
    const { consoles, record, pass } = await open()
    const [first] = consoles
    await record(first)
    pass(31 * DAY_MS)
    await first.purge()
    const [due] = await claim(first)
    expect(due).toBeDefined()
    if (due !== undefined) await attempt(first, due)
    await first.purge()
    const page = { workspaceId: 'ws_1', limit: 10, afterId: null }
    expect((await first.log('operator').list(page)).deliveries).toEqual([])
  })
})

test('expiry spans are adjacent and never overlap: after an outage a console warns once', () => {
  const spans = expirySpans(0).toSorted((a, b) => a.afterMs - b.afterMs)
  for (const [index, span] of spans.entries()) {
    if (index > 0) expect(span.afterMs).toBe(spans[index - 1]?.untilMs)
  }
  expect(spans.at(-1)?.untilMs).toBe(Math.max(...WARNING_DAYS) * DAY_MS)
})

test('attempts spread over about 28 hours, so that a receiver may be down overnight', () => {
  const waits = Array.from({ length: 9 }, (_, failed) => retryDelayMs(failed + 1, 0))
  expect(waits.at(-1)).toBeNull()
  const totalMs = waits.reduce<number>((sum, wait) => sum + (wait ?? 0), 0)
  expect(totalMs).toBeGreaterThan(24 * HOUR_MS)
  expect(retryDelayMs(1, 1)).toBeLessThanOrEqual(5_500)
  expect(retryDelayMs(8, 1)).toBe(MAX_RETRY_DELAY_MS)
})
