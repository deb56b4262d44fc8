import { randomBytes } from 'node:crypto'
import type { ServerResponse } from 'node:http'
import { sql } from 'kysely'
import { Webhook } from 'standardwebhooks'
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { neverReloads } from '../../../src/config/reloadable.ts'
import { createIds } from '../../../src/console/platform/database/ids.ts'
import {
  createOperatorChannel,
  createWorkspaceChannel,
  workspaceRestMs,
} from '../../../src/console/webhooks/channels.ts'
import { createDeliveries, Dispatcher } from '../../../src/console/webhooks/dispatcher.ts'
import { MAX_WAITING, type ReceiverKind } from '../../../src/console/webhooks/rows.ts'
import { createWorkspaceWebhooks, findWebhook } from '../../../src/console/webhooks/workspace-webhooks.ts'
import { createMetrics } from '../../../src/observability/metrics/metrics.ts'
import { beyondFast } from '../../support/beyond-fast.ts'
import { type RunningConsole, startConsole } from '../../support/console.ts'
import { ManualTimers } from '../../support/manual-timers.ts'
import { openDatabase } from '../../support/open-database.ts'
import { PostgresServer } from '../../support/postgres-server.ts'
import { startSignIn } from '../../support/signed-in.ts'
import { silentLogger } from '../../support/silent-logger.ts'
import { NOW_MS } from '../../support/stored-keys.ts'
import { databaseDirectory } from '../../support/temporary-directory.ts'
import { has, POSTGRES } from '../../support/tools.ts'
import { until } from '../../support/until.ts'
import { WebhookReceiver } from '../../support/webhook-receiver.ts'

const OWN = { enabled: true, allowHttp: true, allowedCidrs: ['127.0.0.0/8'] }
const OPERATOR_SECRET = `whsec_${Buffer.alloc(32, 3).toString('base64')}`
const HOOK = '/admin/v1/workspaces/ws_1/webhook'

async function startReceiver(): Promise<WebhookReceiver> {
  const started = await WebhookReceiver.start()
  onTestFinished(() => started.stop())
  return started
}

let receiver: WebhookReceiver
beforeEach(async () => {
  receiver = await startReceiver()
})

async function issue({ send }: RunningConsole, workspaceId = 'ws_1') {
  const body = { name: 'reader', scopes: ['files:read'] }
  return (await send('POST', `/admin/v1/workspaces/${workspaceId}/keys`, body)).body
}

const json = ({ text }: { readonly text: string }) => JSON.parse(text)

describe('the webhook of a workspace', () => {
  test('receives events of its own keys, signed with the secret that was shown once', async () => {
    const operator = await startReceiver()
    const running = await startConsole({
      workspaceWebhooks: OWN,
      webhook: { url: operator.url, secret: OPERATOR_SECRET },
    })
    await issue(running)
    const { webhook, secret } = json(await running.send('POST', HOOK, { url: receiver.url }))
    expect(webhook).toMatchObject({ url: receiver.url, createdBy: 'admin-token' })
    const { key } = await issue(running)
    await issue(running, 'ws_2')
    await until('both webhooks have their events', () => {
      return receiver.received.length === 1 && operator.received.length === 3
    })
    const [message] = receiver.received
    const headers = message?.headers as Record<string, string>
    // One event for two receivers: it has one id.
    expect(operator.received.map(({ headers: own }) => own['webhook-id'])).toContain(headers['webhook-id'])
    const event = new Webhook(secret).verify(message?.body ?? '', headers)
    expect(event).toMatchObject({ type: 'key.issued', data: { key: { id: key.id, workspaceId: 'ws_1' } } })
    expect(() => new Webhook(OPERATOR_SECRET).verify(message?.body ?? '', headers)).toThrow()
    const shown = await running.send('GET', HOOK)
    expect(json(shown).webhook.url).toBe(receiver.url)
    expect(shown.text).not.toContain(secret)
    const { deliveries } = json(await running.send('GET', `${HOOK}/deliveries`))
    expect(deliveries).toMatchObject([{ type: 'key.issued', keyId: key.id }])
  })

  test('can be tested, replaced and removed; the audit log has each change without path and secret', async () => {
    const running = await startConsole({ workspaceWebhooks: OWN })
    const test = () => running.send('POST', `${HOOK}/test`)
    expect((await test()).status).toBe(404)
    const first = json(await running.send('POST', HOOK, { url: receiver.url }))
    const answers = [json(await test()), json(await test())]
    expect(answers[0]).toEqual({ url: receiver.url, sent: true })
    // A minute may end between the two.
    const sent = answers.filter(answer => answer.sent).map(() => 'test')
    await until('each that was sent arrives', () => receiver.types.length === sent.length)
    expect(receiver.types).toEqual(sent)

    const second = await startReceiver()
    const replaced = json(await running.send('POST', HOOK, { url: second.url }))
    expect(replaced.secret).not.toBe(first.secret)
    await issue(running)
    await until('the event arrives at the new address', () => second.types.length === 1)

    expect(json(await running.send('POST', `${HOOK}/remove`))).toEqual({ removed: true })
    expect(json(await running.send('POST', `${HOOK}/remove`))).toEqual({ removed: false })
    expect(json(await running.send('GET', HOOK))).toEqual({ webhook: null })
    await issue(running)
    const { deliveries } = json(await running.send('GET', `${HOOK}/deliveries`))
    expect(deliveries).toHaveLength(2)

    const audit = await running.send('GET', '/admin/v1/workspaces/ws_1/audit')
    const changes = json(audit)
      .entries.filter(({ action }: { action: string }) => action.startsWith('webhook.'))
      .map(({ action, detail }: { action: string; detail: { changes: unknown } }) => [action, detail.changes])
    const [one, two] = [receiver.url, second.url].map(url => new URL(url).origin)
    expect(changes).toEqual([
      ['webhook.removed', { site: { old: two, new: null } }],
      ['webhook.set', { site: { old: one, new: two } }],
      ['webhook.set', { site: { old: null, new: one } }],
    ])
    expect(audit.text).not.toContain('/hooks/postern')
    expect(audit.text + JSON.stringify(running.log)).not.toContain(first.secret)
  })

  test('is refused with a text for each mistake, and does not exist unless the setting allows it', async () => {
    const { send } = await startConsole({ workspaceWebhooks: { enabled: true } })
    for (const url of [
      'http://hooks.example.com/',
      'https://10.0.0.1/',
      'https://[::1]/',
      'https://u@a.test/',
    ]) {
      const { status, body } = await send('POST', HOOK, { url })
      expect([status, body.code, json({ text: JSON.stringify(body) }).field]).toEqual([
        400,
        'invalid_request',
        'url',
      ])
    }
    const without = await startConsole()
    expect((await without.metrics.webhookDeliveries.get()).values).toEqual([])
    for (const [method, path] of [
      ['GET', ''],
      ['POST', '/remove'],
      ['POST', '/test'],
      ['GET', '/deliveries'],
    ] as const) {
      const { status, body } = await without.send(method, HOOK + path)
      expect([status, body.code]).toEqual([404, 'webhooks_disabled'])
    }
  })

  test('is where the menu of a workspace leads, if the operator has no webhook', async () => {
    const world = await startSignIn({ workspaceWebhooks: OWN })
    const ada = await world.signedIn({ sub: 'ada', workspaces: ['ws_1'] })
    const { text } = await ada.browser.visit('/workspaces/ws_1/deliveries')
    expect(text).toContain('<h1>Webhook of this workspace</h1>')
  })

  test('is changed by managers of the workspace alone; viewers see its site, others nothing', async () => {
    const oidc = { viewerClaim: 'roles' }
    const world = await startSignIn({ workspaceWebhooks: OWN, signIn: { oidc } })
    const ada = await world.signedIn({ sub: 'ada', workspaces: ['ws_1'] })
    const vera = await world.signedIn({ sub: 'vera', workspaces: ['ws_1'], roles: 'viewer' })
    const other = await world.signedIn({ sub: 'otto', workspaces: ['ws_2'] })
    const path = '/workspaces/ws_1/webhook'
    const url = receiver.url
    expect((await vera.call('POST', path, { url })).status).toBe(403)
    expect((await other.call('POST', path, { url })).status).toBe(404)
    expect((await ada.call('POST', path, { url })).status).toBe(201)
    expect(json(await ada.call('GET', path)).webhook.url).toBe(url)
    expect(json(await vera.call('GET', path)).webhook.url).toBe(new URL(url).origin)
    expect((await other.call('GET', path)).status).toBe(404)
    for (const action of ['test', 'remove']) {
      expect((await vera.call('POST', `${path}/${action}`, {})).status).toBe(403)
      expect((await other.call('POST', `${path}/${action}`, {})).status).toBe(404)
    }
  })
})

const DATABASES = [['SQLite', true] as const, ...beyondFast(['PostgreSQL', has(POSTGRES)] as const)]

describe.each(DATABASES)('events to webhooks of workspaces (%s)', (name, isThere) => {
  async function freshPostgres(): Promise<string> {
    const server = await PostgresServer.started()
    onTestFinished(() => server.stop())
    return server.migratedDatabase()
  }

  /** Two consoles over one database, on a clock that only the test moves. */
  async function open() {
    const url = name === 'SQLite' ? `sqlite:${databaseDirectory()}/a.db` : await freshPostgres()
    const operatorReceiver = await startReceiver()
    let nowMs = NOW_MS
    const clock = { wallMs: () => nowMs, monotonicMs: () => nowMs }
    // Longer than any of these tests waits.
    const timeoutMs = 600_000
    const guard = {
      mayConnectTo: () => true,
      resolve: async () => ['127.0.0.1'],
      proxies: { noProxy: [] },
      timeoutMs,
    }
    const newEventId = createIds('msg', randomBytes)
    const start = async () => {
      const database = await openDatabase(url)
      const metrics = createMetrics()
      const deliveries = createDeliveries(database, clock, newEventId)
      const parts = { clock, timers: new ManualTimers(), logger: silentLogger, metrics, random: () => 0 }
      const operator = { url: operatorReceiver.url, secret: OPERATOR_SECRET, timeoutMs }
      const channels = [
        createOperatorChannel(operator, guard.proxies, neverReloads),
        createWorkspaceChannel(guard, id => findWebhook(database.reader, id)),
      ]
      const dispatcher = new Dispatcher({ ...parts, deliveries, channels })
      onTestFinished(async () => {
        await dispatcher.stop()
        await database.close()
      })
      return { database, metrics, deliveries, log: deliveries.log('workspace'), dispatcher }
    }
    const [console, second] = [await start(), await start()]
    const { database, metrics } = console
    const newAuditId = createIds('audit', randomBytes)
    const settings = { ...OWN, deniedCidrs: [], timeoutMs }
    const ids = { newAuditId, randomBytes, clock, keyPrefix: 'wsk_' }
    const webhooks = createWorkspaceWebhooks({ database, metrics, deliveries: console.log, settings, ...ids })
    const caller = { actor: 'person:ada', address: '192.0.2.1', requestId: 'r1' }
    const set = (workspaceId: string, { url: to }: WebhookReceiver) => webhooks.set(workspaceId, to, caller)
    const insert = (workspaceId: string, count: number, kind: ReceiverKind = 'workspace') =>
      console.deliveries.insert(
        Array.from({ length: count }, () => {
          const id = newEventId(nowMs)
          const about = { workspaceId, keyId: 'key_1', type: 'key.edited', deduplicationKey: id } as const
          return { receiver: kind, id, ...about, atMs: nowMs, body: JSON.stringify({ type: workspaceId }) }
        }),
      )
    const list = async (workspaceId: string, limit = 50) =>
      (await console.log.list({ workspaceId, limit, afterId: null })).deliveries
    const pass = (ms: number) => {
      nowMs += ms
    }
    return { console, second, operatorReceiver, webhooks, caller, set, insert, list, pass }
  }

  test.skipIf(!isThere)(
    'a receiver that does not answer holds up no other, and rests between attempts',
    async () => {
      const { console, set, insert, list, pass } = await open()
      const silent = await startReceiver()
      const unanswered: ServerResponse[] = []
      silent.answer = response => void unanswered.push(response)
      await set('ws_slow', silent)
      await set('ws_1', receiver)
      await insert('ws_slow', 40)
      await insert('ws_1', 10)
      const delivering = console.dispatcher.deliver()
      await until('the other has all of its events', () => receiver.received.length === 10)
      await until('the first attempts are open', () => unanswered.length === 4)
      silent.answer = response => response.destroy()
      for (const response of unanswered) response.destroy()
      await delivering
      expect(silent.received).toHaveLength(4)
      expect((await list('ws_slow')).filter(({ attempts }) => attempts > 0)).toHaveLength(4)
      await console.dispatcher.deliver()
      expect(silent.received).toHaveLength(4)
      pass(workspaceRestMs(1))
      await console.dispatcher.deliver()
      expect(silent.received).toHaveLength(8)
      silent.answer = response => response.writeHead(204).end()
      pass(86_400_000)
      await console.dispatcher.deliver()
      expect((await list('ws_slow')).every(({ deliveredAtMs }) => deliveredAtMs !== null)).toBe(true)
    },
  )

  test.skipIf(!isThere)(
    'while all receivers that are served at a time do not answer, the operator’s webhook receives its events',
    async () => {
      const { console, operatorReceiver, set, insert } = await open()
      const unanswered: ServerResponse[] = []
      receiver.answer = response => void unanswered.push(response)
      for (let each = 0; each < 32; each++) {
        await set(`ws_${each}`, receiver)
        await insert(`ws_${each}`, 1)
      }
      const delivering = console.dispatcher.deliver()
      await until('every lane for workspaces is taken', () => unanswered.length === 32)
      await insert('ws_1', 20, 'operator')
      const more = console.dispatcher.deliver()
      await until('the operator has all of its events', () => operatorReceiver.received.length === 20)
      for (const response of unanswered) response.destroy()
      await Promise.all([delivering, more])
    },
  )

  test.skipIf(!isThere)(
    'a new address gets what waits at once, also if it is set while an attempt to the former one fails',
    async () => {
      const { console, set, insert, list } = await open()
      const [former, next] = [await startReceiver(), await startReceiver()]
      const unanswered: ServerResponse[] = []
      former.answer = response => void unanswered.push(response)
      await set('ws_1', former)
      await insert('ws_1', 5)
      const delivering = console.dispatcher.deliver()
      await until('attempts to the former address are open', () => unanswered.length === 4)
      await set('ws_1', next)
      for (const response of unanswered) response.destroy()
      await delivering
      await console.dispatcher.deliver()
      expect([former.received.length, next.received.length]).toEqual([4, 5])
      expect((await list('ws_1')).every(({ deliveredAtMs }) => deliveredAtMs !== null)).toBe(true)
    },
  )

  test.skipIf(!isThere)('a new address gets at once what waits for its next attempt', async () => {
    const { console, set, insert } = await open()
    receiver.answer = response => response.writeHead(500).end()
    await set('ws_1', receiver)
    await insert('ws_1', 2)
    await console.dispatcher.deliver()
    const next = await startReceiver()
    await set('ws_1', next)
    await console.dispatcher.deliver()
    expect(next.received).toHaveLength(2)
  })

  test.skipIf(!isThere)('a receiver that takes one of the events sent together does not rest', async () => {
    const { console, set, insert, pass } = await open()
    receiver.answer = response => response.writeHead(500).end()
    await set('ws_1', receiver)
    await insert('ws_1', 1)
    await console.dispatcher.deliver()
    await insert('ws_1', 2)
    receiver.answer = (response, number) => response.writeHead(number === 2 ? 204 : 500).end()
    pass(workspaceRestMs(1))
    await console.dispatcher.deliver()
    const before = receiver.received.length
    await insert('ws_1', 1)
    await console.dispatcher.deliver()
    expect(receiver.received).toHaveLength(before + 1)
  })

  test.skipIf(!isThere)('of two removals at once, one removes the webhook, and one is audited', async () => {
    const { console, second, webhooks, caller, set } = await open()
    await set('ws_1', receiver)
    const removeTwice = () => [1, 2].map(() => webhooks.remove('ws_1', caller))
    const { writer, reader, dialect } = second.database
    let removals: Promise<boolean>[] = []
    if (dialect === 'sqlite') removals = removeTwice()
    else {
      // Both have found it before either deletes it.
      await writer.transaction().execute(async tx => {
        await sql`select workspace_id from workspace_webhooks for update`.execute(tx)
        removals = removeTwice()
        await until('both wait for the row', async () => {
          const { rows } = await sql`select 1 from pg_locks where not granted`.execute(reader)
          return rows.length === 2
        })
      })
    }
    expect((await Promise.all(removals)).toSorted()).toEqual([false, true])
    const removed = console.database.reader.selectFrom('audit').where('action', '=', 'webhook.removed')
    expect(await removed.selectAll().execute()).toHaveLength(1)
  })

  test.skipIf(!isThere)('two consoles send each event once', async () => {
    const { console, second, set, insert } = await open()
    const others = await Promise.all(Array.from({ length: 5 }, startReceiver))
    for (const [index, other] of others.entries()) {
      await set(`ws_${index}`, other)
      await insert(`ws_${index}`, 9)
    }
    await Promise.all([console.dispatcher.deliver(), second.dispatcher.deliver()])
    await console.dispatcher.deliver()
    for (const [index, { types }] of others.entries()) {
      expect(types).toEqual(Array.from({ length: 9 }, () => `ws_${index}`))
    }
  })

  test.skipIf(!isThere)(
    'those of a webhook that is removed are given up, and a workspace without one has none',
    async () => {
      const { console, webhooks, caller, set, insert, list } = await open()
      await insert('ws_1', 1)
      expect(await list('ws_1')).toEqual([])
      await set('ws_1', receiver)
      await insert('ws_1', 2)
      await webhooks.remove('ws_1', caller)
      await console.dispatcher.deliver()
      expect(receiver.received).toEqual([])
      const given = { attempts: 0, nextAttemptAtMs: null, lastError: 'Not sent: the webhook was removed' }
      expect(await list('ws_1')).toMatchObject([given, given])
    },
  )

  test.skipIf(!isThere)(
    'an attempt that ends after the webhook was removed leaves its event given up',
    async () => {
      const { console, webhooks, caller, set, insert, list } = await open()
      const { promise: arrived, resolve } = Promise.withResolvers<ServerResponse>()
      receiver.answer = response => resolve(response)
      await set('ws_1', receiver)
      await insert('ws_1', 1)
      const delivering = console.dispatcher.deliver()
      const response = await arrived
      await webhooks.remove('ws_1', caller)
      response.destroy()
      await delivering
      const given = { nextAttemptAtMs: null, lastError: 'Not sent: the webhook was removed' }
      expect(await list('ws_1')).toMatchObject([given])
    },
  )

  test.skipIf(!isThere)(
    `of one workspace at most ${MAX_WAITING} wait; further ones are given up, and can be sent again`,
    async () => {
      const { console, set, insert, list } = await open()
      await set('ws_1', receiver)
      await insert('ws_1', 1)
      await sql`insert into webhook_deliveries
          (receiver, id, workspace_id, key_id, type, deduplication_key, at_ms, body, attempts, due_at_ms)
        with recursive counted(n) as (select 1 union all select n + 1 from counted where n < ${MAX_WAITING - 2})
        select 'ws_1', 'msg_00' || n, 'ws_1', 'key_1', 'key.edited', 'of ' || n, ${NOW_MS}, '{}', 0, ${NOW_MS + 1e7} from counted`.execute(
        console.database.writer,
      )
      await insert('ws_1', 3)
      const newest = await list('ws_1', 3)
      const full = { lastError: `Not sent: ${MAX_WAITING} events were waiting`, nextAttemptAtMs: null }
      expect(newest).toMatchObject([full, full, { lastError: null, nextAttemptAtMs: NOW_MS }])
      await console.log.sendAgain({ workspaceId: 'ws_1', id: newest[0]?.id ?? '' })
      await console.dispatcher.deliver()
      expect(receiver.received).toHaveLength(3)
    },
  )

  test.skipIf(!isThere)(
    'of several tests within a minute one is sent, which the caller can tell',
    async () => {
      const { console, set, pass } = await open()
      await set('ws_1', receiver)
      const { sendTest } = console.log
      expect([await sendTest('ws_1'), await sendTest('ws_1'), await sendTest('ws_2')]).toEqual([
        true,
        false,
        false,
      ])
      pass(60_000)
      expect(await sendTest('ws_1')).toBe(true)
    },
  )
})

test('a receiver that fails rests for 5 s, then longer, and never for more than a minute', () => {
  expect([0, 1, 2, 3, 4, 5, 1_000].map(workspaceRestMs)).toEqual([
    0, 5_000, 10_000, 20_000, 40_000, 60_000, 60_000,
  ])
})

test('the page of the webhook shows its secret once, its deliveries, and what is wrong with an address', async () => {
  const world = await startSignIn({ workspaceWebhooks: OWN, signIn: { oidc: { viewerClaim: 'roles' } } })
  const ada = await world.signedIn({ sub: 'ada', workspaces: ['ws_1'] })
  const vera = await world.signedIn({ sub: 'vera', workspaces: ['ws_1'], roles: 'viewer' })
  const path = '/workspaces/ws_1/webhook'
  const send = (to: string, fields = {}) => ada.browser.post(to, { _csrf: ada.csrf, ...fields })
  expect((await ada.browser.visit('/workspaces/ws_1/deliveries')).text).toContain('Webhook of this workspace')
  expect((await ada.browser.visit(path)).text).toContain('No webhook is set')

  const wrong = await send(path, { url: 'https://10.0.0.1/' })
  expect([wrong.status, wrong.text.includes('public, or allowed by its operator')]).toEqual([422, true])
  const done = await send(path, { url: receiver.url })
  const [secret = 'none'] = done.text.match(/whsec_[\w+&;#/=]+/) ?? []
  expect([done.status, secret.length > 40]).toEqual([200, true])
  expect((await send(`${path}/test`)).headers['location']).toBe(`${path}?test=sent`)
  await until('the test arrives', () => receiver.types.length === 1)
  expect((await ada.browser.visit(`${path}?test=sent`)).text).toContain('A test is being sent')
  expect((await ada.browser.visit(`${path}?test=repeated`)).text).toContain('No second test was sent')
  await until('the page shows it', async () =>
    (await ada.browser.visit(path)).text.includes('204, after 1 attempt'),
  )
  expect((await ada.browser.visit(path)).text).not.toContain('whsec_')

  const seen = (await vera.browser.visit(path)).text
  expect([seen.includes('hooks'), seen.includes('<form class="card"')]).toEqual([false, false])
  expect((await vera.browser.post(path, { _csrf: vera.csrf, url: receiver.url })).status).toBe(403)
  expect((await ada.browser.visit('/workspaces/ws_2/webhook')).status).toBe(404)
  const question = (await ada.browser.visit(`${path}/remove`)).text
  expect([question.includes('Remove the webhook?'), question.includes('Keep it')]).toEqual([true, true])
  expect((await ada.browser.visit(path)).text).not.toContain('No webhook is set')
  expect((await ada.browser.visit(path)).text).toContain('Deliver again')
  await send(`${path}/remove`)
  const removed = (await ada.browser.visit(path)).text
  expect([removed.includes('No webhook is set'), removed.includes('Deliver again')]).toEqual([true, false])
})
