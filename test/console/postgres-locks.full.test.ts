import pg from 'pg'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import type { GatewayReport } from '../../src/console/announcing/gateway-rows.ts'
import { PlansChanged } from '../../src/console/keys/rows/bulk-rows.ts'
import { toKeyRow } from '../../src/console/platform/database/key-row.ts'
import { planNewPlan, planRevocation } from '../../src/domain/key/key-life.ts'
import type { KeyRecord, StoredKey } from '../../src/domain/key/key-record.ts'
import { PostgresServer } from '../support/postgres-server.ts'
import { createRepository, insert, replace } from '../support/repository.ts'
import { NOW_MS, revoked, someKey } from '../support/stored-keys.ts'
import { has, POSTGRES } from '../support/tools.ts'
import { settled, until } from '../support/until.ts'
import { openWatched } from '../support/watched-sessions.ts'

/** Refused at once, instead of waiting, where another session has the lock. */
const LOCKED = { code: '55P03' }

describe.skipIf(!has(POSTGRES))('several consoles on one PostgreSQL', () => {
  let server: PostgresServer
  beforeAll(async () => {
    server = await PostgresServer.started()
  })
  afterAll(() => server.stop())

  async function setUp() {
    const watched = await openWatched(await server.migratedDatabase())
    const clock = { wallMs: () => NOW_MS, monotonicMs: () => NOW_MS }
    const repository = createRepository(watched, clock)
    const waiting = async () => {
      const rows = await watched.query(`select pid, wait_event from pg_stat_activity
        where datname = current_database() and wait_event_type = 'Lock' order by wait_event`)
      return rows.map(({ pid, wait_event }) => ({ pid: Number(pid), kind: String(wait_event) }))
    }
    const untilWaiting = (sessions: number) =>
      until(`${sessions} wait for a lock`, async () => (await waiting()).length === sessions)
    /** Another console, in the middle of a transaction. */
    const begin = async (statement: string) => {
      const client = new pg.Client({ connectionString: watched.direct })
      await client.connect()
      onTestFinished(() => client.end())
      await client.query('begin')
      await client.query(statement)
      return client
    }
    const isLocked = async (table: string, id: string) => {
      const look = await begin('select 1')
      return look.query(`select id from ${table} where id = '${id}' for update nowait`).then(
        () => look.query('rollback').then(() => false),
        (error: unknown) => {
          expect(error).toMatchObject(LOCKED)
          return true
        },
      )
    }
    /** Keys by their ids, of which the table has the last one first. */
    const storedKeys = async (count: number): Promise<StoredKey[]> => {
      const keys = Array.from({ length: count }, () => someKey())
      for (const key of keys.toReversed()) {
        await watched.writer.insertInto('keys').values(toKeyRow(key, NOW_MS)).execute()
      }
      return keys.toSorted((a, b) => (a.record.id < b.record.id ? -1 : 1))
    }
    return { ...watched, repository, waiting, untilWaiting, begin, isLocked, storedKeys }
  }

  const auditOf = ({ record: { id, workspaceId } }: StoredKey) => ({
    ...{ id: `audit_${id}`, workspaceId, atMs: NOW_MS, actor: 'a', keyId: id, detail: {} },
    action: 'key.revoked' as const,
  })

  const lockKey = (key: StoredKey | undefined) =>
    `select id from keys where id = '${key?.record.id}' for update`

  test('that issue keys with one hint at the same moment: one of them is refused', async () => {
    const { repository, begin, waiting, untilWaiting } = await setUp()
    const other = await begin('lock table outbox in exclusive mode')
    const [first, second] = [someKey(), someKey({ hint: 'wsk_…same' })]
    const issued = [insert(repository, second), insert(repository, someKey({ hint: 'wsk_…same' }))]
    await untilWaiting(2)
    const elsewhere = insert(repository, someKey({ hint: 'wsk_…same', workspaceId: 'ws_2' }))
    await untilWaiting(3)
    // The same hint in another workspace waits for nothing of these.
    expect((await waiting()).map(({ kind }) => kind)).toEqual(['advisory', 'relation', 'relation'])
    await other.query('rollback')
    expect((await Promise.all(issued)).filter(change => change !== null)).toHaveLength(1)
    expect(await elsewhere).not.toBeNull()
    expect(await insert(repository, first)).not.toBeNull()
  })

  test('that change a plan while keys are issued under it: the change waits for them, and they wait for it', async () => {
    const { repository, begin, untilWaiting, query } = await setUp()
    const entry = { ...auditOf(someKey()), keyId: null, action: 'workspace.plan_changed' as const }
    const setPlan = (plan: string) =>
      repository.changePlan({ workspaceId: 'ws_1', plan, describeChange: () => entry })
    const issue = (workspacePlan: string | null) =>
      repository.commit({ issued: someKey(), replaced: null, workspacePlan, audit: [], response: null })
    const other = await begin('lock table outbox in exclusive mode')
    const issued = issue(null)
    await untilWaiting(1)
    const changed = setPlan('free')
    await untilWaiting(2)
    const late = issue(null)
    await untilWaiting(3)
    await other.query('rollback')
    expect(await issued).toMatchObject({ kind: 'committed' })
    await changed
    expect(await late).toEqual({ kind: 'stale' })
    expect(await issue('free')).toMatchObject({ kind: 'committed' })
    expect(await query('select plan from workspace_plans')).toEqual([{ plan: 'free' }])
  })

  test.each(['revoked', 'given a plan'] as const)(
    'lock the keys that are %s together in one order, so that neither waits for the other',
    async how => {
      const { repository, begin, untilWaiting, isLocked, storedKeys } = await setUp()
      const [first, second, third] = await storedKeys(3)
      const other = await begin(lockKey(first))
      const ids = [third, second, first].map(key => key?.record.id ?? '')
      const describeChange = (key: StoredKey) => ({ audit: auditOf(key), events: [] })
      const giveFree = (record: KeyRecord, nowMs: number) => planNewPlan(record, 'free', nowMs)
      const change =
        how === 'revoked'
          ? repository.changeKeys({ ids, plan: planRevocation, describeChange })
          : repository.changeKeys({ ids, plan: giveFree, describeChange: null })
      await untilWaiting(1)
      for (const key of [second, third]) expect(await isLocked('keys', key?.record.id ?? '')).toBe(false)
      await other.query('rollback')
      expect((await change).keys.map(({ record }) => record.id)).toEqual(ids.toReversed())
    },
  )

  test('lock the keys of changes that arrive together in one order', async () => {
    const { repository, begin, untilWaiting, isLocked, storedKeys } = await setUp()
    const keys = await storedKeys(4)
    const [first, second, third, running] = keys
    const [before, other] = [await begin(lockKey(running)), await begin(lockKey(first))]
    const ahead = [running].flatMap(key => (key === undefined ? [] : [replace(repository, revoked(key))]))
    await untilWaiting(1)
    const together = [third, first, second].flatMap(key =>
      key === undefined ? [] : [replace(repository, revoked(key))],
    )
    await settled()
    await before.query('rollback')
    await Promise.all(ahead)
    await untilWaiting(1)
    for (const key of [second, third]) expect(await isLocked('keys', key?.record.id ?? '')).toBe(false)
    await other.query('rollback')
    expect((await Promise.all(together)).map(change => change?.version)).toEqual([2, 2, 2])
  })

  test('that import the same keys in another order wait for each other in one', async () => {
    const { repository, begin, untilWaiting, query } = await setUp()
    const keys = ['b', 'a'].map(digit => ({ ...someKey(), digest: digit.repeat(64) }))
    const insertOf = (
      digit: string,
    ) => `insert into keys (id, digest, workspace_id, name, scopes, hint, created_at_ms,
      created_by, expires_at_ms, version, changed_at_ms)
      values ('key_${digit}', '${digit.repeat(64)}', 'ws_1', 'n', '[]', '${digit}', 1, 'a', 1, 1, 1)`
    const other = await begin(insertOf('a'))
    const describeChange = (key: StoredKey) => ({ audit: auditOf(key), events: [] })
    const plans = new Map([['ws_1', null]])
    const imported = repository.importKeys({ keys, workspacePlans: plans, describeChange })
    await untilWaiting(1)
    const third = await begin(insertOf('b'))
    for (const client of [third, other]) await client.query('rollback')
    expect((await imported).keys).toEqual(keys)
    const changed = new Map([
      ['ws_1', null],
      ['ws_2', 'free'],
    ])
    const stale = repository.importKeys({ keys: [someKey()], workspacePlans: changed, describeChange })
    await expect(stale).rejects.toBeInstanceOf(PlansChanged)
    expect(await query('select count(*)::int as count from keys')).toEqual([{ count: 2 }])
    for (const find of [repository.findPlans, repository.lastUses]) expect(await find([])).toEqual(new Map())
  })

  test('do not try each of several changes alone whose server went away twice', async () => {
    const { repository, begin, waiting, untilWaiting, storedKeys, end } = await setUp()
    const keys = await storedKeys(3)
    const other = await begin(lockKey(keys[2]))
    const ahead = Promise.all(keys.slice(2).map(key => replace(repository, revoked(key))))
    await untilWaiting(1)
    const failed = Promise.allSettled(keys.slice(0, 2).map(key => replace(repository, revoked(key))))
    const blocked = await begin(lockKey(keys[0]))
    await other.query('rollback')
    expect(await ahead).toMatchObject([{ version: 2 }])
    for (const _ of [1, 2]) {
      await untilWaiting(1)
      for (const { pid } of await waiting()) await end(pid)
    }
    expect((await failed).map(({ status }) => status)).toEqual(['rejected', 'rejected'])
    await blocked.query('rollback')
    const again = keys.slice(0, 2).map(key => replace(repository, revoked(key)))
    expect((await Promise.all(again)).map(change => change?.version)).toEqual([2, 2])
  })

  test('queue a webhook event of each change that is committed together', async () => {
    const { repository, storedKeys, query } = await setUp()
    const keys = await storedKeys(4)
    const changes = keys.map((key, index) => {
      const { id: keyId, workspaceId } = key.record
      const event = {
        ...{ receiver: 'operator' as const, id: `msg_${index}`, workspaceId, keyId, type: 'key.revoked' },
        ...{ deduplicationKey: keyId, atMs: NOW_MS, body: '{}' },
      }
      const events = index === 0 ? {} : { events: [event] }
      return { issued: null, replaced: revoked(key), audit: [auditOf(key)], response: null, ...events }
    })
    await Promise.all(changes.map(change => repository.commit(change)))
    const sent = await query('select id from webhook_deliveries order by id')
    expect(sent.map(({ id }) => id)).toEqual(['msg_1', 'msg_2', 'msg_3'])
    const audited = await query('select key_id from audit where at_ms > 1 order by key_id')
    expect(audited.map(({ key_id }) => key_id)).toEqual(keys.map(({ record }) => record.id))
  })

  test('pass over what another one is announcing or deleting, instead of waiting for it', async () => {
    const { repository, begin } = await setUp()
    const changes = []
    for (let issued = 0; issued < 4; issued++) changes.push(await insert(repository, someKey()))
    const pending = changes.filter(change => change !== null)
    const [busy, ...free] = pending
    const other = await begin(`select digest from outbox where digest = '${busy?.digest}' for update`)
    const digestsOf = (found: readonly { readonly digest: string }[]) =>
      found.map(({ digest }) => digest).toSorted()
    expect(digestsOf(await repository.claimChanges(2))).toHaveLength(2)
    expect(digestsOf(await repository.claimChanges(100))).toEqual(digestsOf(free))
    await repository.deletePendingChanges(pending)
    expect(await repository.countPending()).toBe(1)
    await other.query('rollback')
    expect(digestsOf(await repository.claimChanges(100))).toEqual([busy?.digest])
  })

  test('put the changes of all keys into an outbox anew, while another one is putting some there', async () => {
    const { repository, begin, query, storedKeys, untilWaiting } = await setUp()
    for (const key of await storedKeys(2)) await replace(repository, revoked(key))
    await repository.deletePendingChanges(await repository.claimChanges(100))
    await query('update regions set requeued_until = (select min(id) from keys)')
    const other = await begin('lock table outbox in share row exclusive mode')
    const requeuing = repository.requeueNextKeys()
    await untilWaiting(1)
    await other.query(`update regions set requeued_until = ''`)
    await other.query('commit')
    await requeuing
    while (await repository.requeueNextKeys()) {}
    expect(await repository.countPending()).toBe(2)
  })

  test('put the changes of all keys into an outbox in the order of those since some time, so that neither waits for the other', async () => {
    const { repository, begin, query, storedKeys, untilWaiting } = await setUp()
    const keys = (await storedKeys(20)).map(({ digest }) => digest)
    await query('update keys set version = 2')
    await query(`update regions set requeued_until = ''`)
    const [lowest = '', ...others] = keys.toSorted()
    const rowOf = (digest: string) =>
      `insert into outbox values ('default', '${digest}', 2, ${NOW_MS}, '', 0)`
    const other = await begin(rowOf(lowest))
    const requeued = repository.requeueNextKeys()
    await untilWaiting(1)
    for (const digest of others) await other.query(rowOf(digest))
    await other.query('commit')
    expect(await requeued).toBe(false)
    expect(await query('select digest from outbox')).toHaveLength(keys.length)
  })

  test('delete what waits for a forgotten region, passing over what another one deletes', async () => {
    const { repository, begin, query } = await setUp()
    await repository.registerRegions(['eu'])
    for (let issued = 0; issued < 3; issued++) await insert(repository, someKey())
    await query(`delete from regions where name = 'eu'`)
    const other = await begin(`select digest from outbox where region = 'eu' limit 1 for update`)
    await repository.purge()
    expect(await repository.pendingIn('eu').countPending()).toBe(1)
    expect(await repository.countPending()).toBe(3)
    await other.query('rollback')
    await repository.purge()
    expect(await repository.pendingIn('eu').countPending()).toBe(0)
  })

  test('sync each change of a key to the disk, and neither what is deleted once it is announced nor reports of gateways', async () => {
    const { repository, storedKeys, query, name } = await setUp()
    await query(`alter database ${name} set synchronous_commit = on`)
    await query(`create table seen (what text, setting text);
      create function note() returns trigger language plpgsql as $$ begin
        insert into seen values (tg_table_name || ' ' || lower(tg_op), current_setting('synchronous_commit'));
        return null;
      end $$`)
    for (const table of ['keys', 'outbox', 'gateways']) {
      await query(`create trigger note after insert or update or delete on ${table} execute function note()`)
    }
    const [key = someKey()] = await storedKeys(1)
    const change = await replace(repository, revoked(key))
    await repository.deletePendingChanges(change === null ? [] : [change])
    await repository.recordGateway({
      ...{ id: 'g', name: 'g', region: 'default', isConnected: true, isLeaving: false, confirmed: [] },
    })
    // An insertion that may update counts as both.
    expect(await query('select distinct what, setting from seen order by what')).toEqual([
      { what: 'gateways insert', setting: 'off' },
      { what: 'gateways update', setting: 'off' },
      { what: 'keys insert', setting: 'on' },
      { what: 'keys update', setting: 'on' },
      { what: 'outbox delete', setting: 'off' },
      { what: 'outbox insert', setting: 'on' },
    ])
  })

  test('add a region once the changes before it are committed, and miss none; a known region waits for nothing', async () => {
    const { repository, begin, untilWaiting, storedKeys } = await setUp()
    const [key] = await storedKeys(1)
    const other = await begin(`update keys set version = 2 where id = '${key?.record.id}'`)
    await repository.registerRegions(['default'])
    const registered = repository.registerRegions(['default', 'eu'])
    await untilWaiting(1)
    await other.query('commit')
    await registered
    while (await repository.pendingIn('eu').requeueNextKeys()) {}
    const changes = await repository.pendingIn('eu').claimChanges(10)
    expect(changes).toEqual([{ digest: key?.digest, version: 2, atMs: NOW_MS }])
  })

  test('record what gateways report in one order, so that neither waits for the other', async () => {
    const { repository, begin, untilWaiting, isLocked } = await setUp()
    const report = (id: string, more: Partial<GatewayReport> = {}) =>
      repository.recordGateway({
        ...{ id, name: id, region: 'default', isConnected: true, isLeaving: false, confirmed: [] },
        ...more,
      })
    for (const id of ['g3', 'g2', 'g1', 'g0']) await report(id)
    const lock = (id: string) => begin(`select id from gateways where id = '${id}' for update`)
    const [before, other] = [await lock('g0'), await lock('g1')]
    const ahead = report('g0')
    await untilWaiting(1)
    const together = ['g3', 'g1', 'g2'].map(id => report(id))
    await settled()
    await before.query('rollback')
    await ahead
    await untilWaiting(1)
    for (const id of ['g2', 'g3']) expect(await isLocked('gateways', id)).toBe(false)
    await other.query('rollback')
    await Promise.all(together)
  })

  test('keep each confirmation once, however many gateways and consoles report it', async () => {
    const { repository, query } = await setUp()
    const confirmed = Array.from({ length: 40 }, (_, index) => ({
      digest: String(index).padStart(64, '0'),
      version: 1 + (index % 3),
    }))
    const report = (id: string, isConnected: boolean) =>
      repository.recordGateway({
        ...{ id, name: id, region: 'default', isConnected, isLeaving: false },
        confirmed: isConnected ? confirmed : confirmed.toReversed(),
      })
    await Promise.all(['a', 'b', 'a', 'c', 'b'].map((id, index) => report(id, index % 2 === 0)))
    const rows = await query('select digest, version, gateway_id, at_ms::int8::text as at from confirmations')
    expect(rows).toHaveLength(3 * confirmed.length)
    expect(new Set(rows.map(({ at }) => at))).toEqual(new Set([String(NOW_MS)]))
    const [one = confirmed[0]] = confirmed
    for (const change of confirmed) {
      const statuses = await repository.listGatewayStatuses(change)
      expect(statuses.map(({ name, confirmed }) => [name, confirmed])).toEqual([
        ['a', true],
        ['b', true],
        ['c', true],
      ])
    }
    const later = { digest: one?.digest ?? '', version: 2 }
    const statuses = await repository.listGatewayStatuses(later)
    expect(statuses.map(gateway => gateway.confirmed)).toEqual([false, false, false])
  })
})
