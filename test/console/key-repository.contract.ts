import { sql } from 'kysely'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { GatewayReport } from '../../src/console/announcing/gateway-rows.ts'
import type { PendingChange } from '../../src/console/announcing/outbox-rows.ts'
import { searchAudit } from '../../src/console/audit/rows.ts'
import type { Change } from '../../src/console/keys/rows/commit.ts'
import { KEY_FILTERS } from '../../src/console/keys/search/key-query.ts'
import type { AuditEntry } from '../../src/console/platform/audit/entries.ts'
import type { AuditedDatabase } from '../../src/console/platform/audit/mac.ts'
import { isInState, readKeyRow } from '../../src/console/platform/database/key-row.ts'
import { keyState, type StoredKey } from '../../src/domain/key/key-record.ts'
import { openDatabase } from '../support/open-database.ts'
import { createRepository, insert, openRepository, type Repository, replace } from '../support/repository.ts'
import { NOW_MS, revoked, someKey } from '../support/stored-keys.ts'

/**
 * What every database behind the registry must do.
 * @param freshUrl the address of a database without rows
 * @param severalConsoles whether it is for more than one console in one process
 */
export function describeKeyRepository(
  name: string,
  freshUrl: () => Promise<string>,
  severalConsoles: boolean,
): void {
  describe(`the registry in ${name}`, () => {
    let repository: Repository
    let database: AuditedDatabase
    let nowMs: number
    beforeEach(async () => {
      nowMs = NOW_MS
      database = await openDatabase(await freshUrl())
      repository = createRepository(database, { wallMs: () => nowMs, monotonicMs: () => nowMs }, 'console-1')
    })
    afterEach(() => repository.close())
    const auditOf = (limit = 20, afterId: string | null = null) =>
      searchAudit(database, { filter: {}, workspaces: ['ws_1'], limit, afterId })

    test('returns a key as stored, by id and by digest', async () => {
      const plain = someKey({ name: 'Übung “1” 🔑 <img src=x>' })
      const linked = someKey({ rotatedFrom: plain.record.id, replacedBy: 'key_x', revokedAtMs: NOW_MS })
      const cidrs = ['192.0.2.0/24', '2001:db8::/32']
      const restricted = someKey({ description: 'for “CI”', suspendedAtMs: NOW_MS, allowedCidrs: cidrs })
      for (const key of [plain, linked, restricted]) await insert(repository, key)
      expect(await repository.findById(plain.record.id)).toEqual(plain)
      expect(await repository.findById(restricted.record.id)).toEqual(restricted)
      expect(await repository.findByDigest(linked.digest)).toEqual(linked)
    })

    test('returns null for an unknown key', async () => {
      const stranger = someKey()
      expect(await repository.findById(stranger.record.id)).toBeNull()
      expect(await repository.findByDigest(stranger.digest)).toBeNull()
    })

    test('keeps each change in the outbox until it is deleted', async () => {
      const key = someKey()
      await insert(repository, key)
      nowMs += 5
      await replace(repository, revoked(key))
      const [issued, revocation, ...more] = await repository.claimChanges(1000)
      expect(issued).toEqual({ digest: key.digest, version: 1, atMs: NOW_MS })
      expect(revocation).toEqual({ digest: key.digest, version: 2, atMs: NOW_MS + 5 })
      expect(more).toEqual([])
      expect(await repository.pendingSpan()).toEqual({ oldestMs: NOW_MS, newestMs: NOW_MS + 5 })
      await repository.deletePendingChanges([{ digest: key.digest, version: 1, atMs: NOW_MS }])
      expect(await repository.findPendingChanges(key.digest)).toHaveLength(1)
      await repository.deletePendingChanges([{ digest: key.digest, version: 2, atMs: NOW_MS + 5 }])
      expect(await repository.findPendingChanges(key.digest)).toEqual([])
      expect(await repository.pendingSpan()).toBeNull()
    })

    test('keeps confirmations for an hour, and gateways that reported since', async () => {
      const change = { digest: 'd'.repeat(64), version: 3 }
      const report = { id: 'g1', name: 'pod-1', region: 'default', isConnected: true, isLeaving: false }
      await repository.recordGateway({ ...report, confirmed: [change] })
      await repository.recordGateway({ ...report, confirmed: [change] })
      const times = { seenAtMs: NOW_MS, disconnectedAtMs: NOW_MS }
      const known = { name: 'pod-1', region: 'default', ...times, confirmed: true }
      expect(await repository.listGatewayStatuses(change)).toEqual([known])
      expect(await repository.listGatewayStatuses({ ...change, version: 2 })).toEqual([known])
      expect(await repository.listGatewayStatuses({ ...change, version: 4 })).toMatchObject([
        { confirmed: false },
      ])
      nowMs += 3_600_001
      expect([
        await repository.countGateways(known.seenAtMs),
        await repository.countGateways(known.seenAtMs + 1),
      ]).toEqual([1, 0])
      await repository.recordGateway({ ...report, id: 'g2', isConnected: false, confirmed: [] })
      await repository.purge()
      expect(await repository.listGatewayStatuses(change)).toMatchObject([
        { seenAtMs: nowMs, confirmed: false },
      ])
    })

    test('says of each of several changes at once which gateways have confirmed it', async () => {
      const [one, other] = [
        { digest: 'a'.repeat(64), version: 3 },
        { digest: 'b'.repeat(64), version: 2 },
      ]
      const report = { region: 'default', isConnected: true, isLeaving: false }
      await repository.recordGateway({ ...report, id: 'g1', name: 'pod-1', confirmed: [one] })
      await repository.recordGateway({ ...report, id: 'g2', name: 'pod-2', confirmed: [one, other] })
      const later = { ...one, version: 4 }
      const statuses = await Promise.all(
        [one, other, later].map(change => repository.listGatewayStatuses(change)),
      )
      expect(statuses.map(gateways => gateways.map(({ confirmed }) => confirmed))).toEqual([
        [true, true],
        [false, true],
        [false, false],
      ])
    })

    test('records reports that arrive together as if each came after the one before', async () => {
      const change = { digest: 'd'.repeat(64), version: 3 }
      const report = (id: string, more: Partial<GatewayReport> = {}) => {
        const usual = { name: id, region: 'default', isConnected: true, isLeaving: false, confirmed: [] }
        return repository.recordGateway({ id, ...usual, ...more })
      }
      await report('g1')
      nowMs += 10
      await Promise.all([
        report('g1', { isConnected: false }),
        report('g2', { confirmed: [change] }),
        report('g3'),
        report('g1', { confirmed: [change], region: 'eu' }),
        report('g2', { isLeaving: true }),
      ])
      const times = { seenAtMs: NOW_MS + 10, disconnectedAtMs: NOW_MS + 10 }
      expect(await repository.listGatewayStatuses(change)).toEqual([
        { name: 'g1', region: 'eu', ...times, confirmed: true },
        { name: 'g3', region: 'default', ...times, confirmed: false },
      ])
      nowMs += 10
      await Promise.all([report('g3'), report('g3', { confirmed: [change] })])
      expect(await repository.listGatewayStatuses(change)).toMatchObject([
        { name: 'g1' },
        { name: 'g3', seenAtMs: NOW_MS + 20, disconnectedAtMs: NOW_MS + 10, confirmed: true },
      ])
    })

    test('stores nothing if a live key of the workspace has the same hint', async () => {
      const first = someKey()
      const twin = someKey({ hint: first.record.hint })
      await insert(repository, first)
      expect(await insert(repository, twin)).toBeNull()
      expect(await repository.findById(twin.record.id)).toBeNull()
      expect(await repository.findPendingChanges(twin.digest)).toEqual([])
    })

    test.each([
      ['of another workspace', { workspaceId: 'ws_2' }],
      ['that is revoked', { revokedAtMs: NOW_MS - 1 }],
      ['that expired this moment', { expiresAtMs: NOW_MS }],
    ])('lets a hint be used again that belongs to a key %s', async (_, difference) => {
      const earlier = someKey(difference)
      nowMs -= 10
      await insert(repository, earlier)
      nowMs += 10
      expect(await insert(repository, someKey({ hint: earlier.record.hint }))).not.toBeNull()
    })

    test('never stores the same secret twice', async () => {
      const key = someKey()
      const copy = { record: someKey().record, digest: key.digest }
      await insert(repository, key)
      await expect(insert(repository, copy)).rejects.toThrow()
      expect(await repository.findById(copy.record.id)).toBeNull()
    })

    test('deletes announced changes from the outbox during a burst, and no others', async () => {
      const keys = Array.from({ length: 30 }, () => someKey())
      const noted = await Promise.all(keys.slice(0, 20).map(key => insert(repository, key)))
      const announced = noted.filter(change => change !== null)
      await Promise.all([
        repository.deletePendingChanges(announced),
        ...keys.slice(20).map(key => insert(repository, key)),
        repository.deletePendingChanges(announced.slice(0, 3)),
      ])
      const left = (await repository.claimChanges(1000)).map(change => change.digest)
      expect(left.toSorted()).toEqual(
        keys
          .slice(20)
          .map(key => key.digest)
          .toSorted(),
      )
    })

    test('commits one of many concurrent changes to a key, and queues it once', async () => {
      const key = someKey()
      await insert(repository, key)
      const attempts = Array.from({ length: 8 }, (_, index) =>
        replace(repository, revoked(key, NOW_MS + index)),
      )
      const won = (await Promise.all(attempts)).filter(Boolean)
      expect(won).toHaveLength(1)
      expect((await repository.findById(key.record.id))?.record.version).toBe(2)
      expect(await repository.claimChanges(1000)).toHaveLength(2)
    })

    test('pages through a workspace newest first; new keys do not shift the pages', async () => {
      const keys = Array.from({ length: 5 }, () => someKey())
      for (const key of keys) await insert(repository, key)
      await insert(repository, someKey({ workspaceId: 'ws_2' }))
      const newestFirst = keys.map(key => key.record.id).reverse()
      const first = await repository.list({ workspaceId: 'ws_1', limit: 2, afterId: null })
      await insert(repository, someKey())
      const second = await repository.list({ workspaceId: 'ws_1', limit: 2, afterId: first.nextAfterId })
      const last = await repository.list({ workspaceId: 'ws_1', limit: 2, afterId: second.nextAfterId })
      const seen = [first, second, last].flatMap(page => page.keys.map(key => key.record.id))
      expect(seen).toEqual(newestFirst)
      expect(last.nextAfterId).toBeNull()
    })

    test('counts each key once, by its current state', async () => {
      const minute = 60_000
      const expiring = someKey({ expiresAtMs: NOW_MS + minute })
      const later = someKey({ expiresAtMs: NOW_MS + 2 * minute })
      for (const key of [someKey(), someKey(), expiring, later, someKey({ expiresAtMs: NOW_MS })])
        await insert(repository, key)
      const former = someKey({ expiresAtMs: NOW_MS })
      await insert(repository, former)
      await replace(repository, revoked(former))
      await insert(repository, someKey({ suspendedAtMs: NOW_MS }))
      await insert(repository, someKey({ suspendedAtMs: NOW_MS, revokedAtMs: NOW_MS }))
      expect(
        await repository.countByState({
          nowMs: NOW_MS,
          weekMs: NOW_MS + minute,
          monthMs: NOW_MS + 2 * minute,
        }),
      ).toEqual({
        active: 2,
        expiring_30d: 1,
        expiring: 1,
        suspended: 1,
        expired: 1,
        revoked: 2,
      })
    })

    test('selects the keys in one state by the same rules as the state of a key', async () => {
      const soonMs = NOW_MS + 60_000
      const keys = {
        active: [someKey(), someKey({ rotatedFrom: 'key_x' })],
        expiring: [someKey({ expiresAtMs: soonMs }), someKey({ expiresAtMs: NOW_MS + 1 })],
        retiring: [someKey({ replacedBy: 'key_x' }), someKey({ replacedBy: 'key_x', expiresAtMs: soonMs })],
        suspended: [
          someKey({ suspendedAtMs: NOW_MS }),
          someKey({ suspendedAtMs: NOW_MS, replacedBy: 'key_x', expiresAtMs: soonMs }),
        ],
        expired: [
          someKey({ expiresAtMs: NOW_MS, suspendedAtMs: NOW_MS - 1 }),
          someKey({ expiresAtMs: NOW_MS }),
          someKey({ expiresAtMs: NOW_MS, replacedBy: 'key_x' }),
        ],
        revoked: [
          someKey({ revokedAtMs: NOW_MS }),
          someKey({ expiresAtMs: NOW_MS - 1, revokedAtMs: NOW_MS - 2 }),
        ],
      }
      const stored = Object.values(keys).flat()
      for (const key of stored) await insert(repository, key)
      await insert(repository, someKey({ workspaceId: 'ws_2' }))
      for (const filter of KEY_FILTERS) {
        const query = database.reader.selectFrom('keys').selectAll().where('workspace_id', '=', 'ws_1')
        const inState = query.where(isInState(filter, { nowMs: NOW_MS, soonMs })).orderBy('id')
        const selected = (await inState.execute()).map(readKeyRow)
        expect(selected).toEqual(filter === 'active' ? [...keys.active, ...keys.expiring] : keys[filter])
        const states = new Set(selected.map(key => keyState(key.record, NOW_MS)))
        expect([...states]).toEqual([filter === 'expiring' ? 'active' : filter])
      }
    })

    test('has no next page after a last page that is exactly full', async () => {
      for (const key of [someKey(), someKey()]) await insert(repository, key)
      const page = await repository.list({ workspaceId: 'ws_1', limit: 2, afterId: null })
      expect(page.keys).toHaveLength(2)
      expect(page.nextAfterId).toBeNull()
    })

    test('stores one of many concurrent keys with the same hint', async () => {
      const keys = Array.from({ length: 10 }, () => someKey({ hint: 'wsk_…same' }))
      const stored = await Promise.all(keys.map(key => insert(repository, key)))
      expect(stored.filter(note => note !== null)).toHaveLength(1)
      const page = await repository.list({ workspaceId: 'ws_1', limit: 20, afterId: null })
      expect(page.keys).toHaveLength(1)
    })

    describe('stores nothing of a change that', () => {
      const everything = async () => [
        (await repository.list({ workspaceId: 'ws_1', limit: 20, afterId: null })).keys,
        (await auditOf()).entries,
        await repository.claimChanges(1000),
      ]
      const response = { id: 'a', request: 'r', outcome: '{}' }

      test.each<[string, (old: StoredKey) => Promise<Partial<Change>>]>([
        ['has a hint that is taken', async old => ({ issued: someKey({ hint: old.record.hint }) })],
        ['comes late', async () => ({ replaced: revoked(revoked(someKey())) })],
        ['repeats a request', async () => ({ response: { ...response, id: 'earlier' } })],
        ['fails', async old => ({ issued: { ...someKey(), digest: old.digest } })],
      ])('%s', async (_, trouble) => {
        const old = someKey()
        await insert(repository, old)
        const earlier = { ...response, id: 'earlier', request: 'other' }
        await repository.commit({ issued: null, replaced: null, audit: [], response: earlier })
        const before = await everything()
        const sound = { issued: someKey(), replaced: revoked(old), audit: [auditEntry(old)], response }
        await repository.commit({ ...sound, ...(await trouble(old)) }).catch(() => {})
        expect(await everything()).toEqual(before)
        expect(await repository.findResponse(response)).toBeNull()
        expect(await repository.commit(sound)).toMatchObject({ kind: 'committed' })
      })
    })

    describe('an audit entry', () => {
      test('is stored with the change and listed newest first', async () => {
        const [first, second] = [someKey(), someKey()]
        for (const key of [first, second]) {
          await repository.commit({ issued: key, replaced: null, audit: [auditEntry(key)], response: null })
        }
        const page = await auditOf(1)
        expect(page.entries).toEqual([auditEntry(second)])
        expect(await auditOf(1, page.nextAfterId)).toEqual({
          entries: [auditEntry(first)],
          nextAfterId: null,
        })
      })

      test('may be one of several for one change: all are stored in order, or none', async () => {
        const key = someKey()
        const entries = [auditEntry(key), { ...auditEntry(key), id: `${auditEntry(key).id}2` }] as const
        const [first, second] = entries
        const change = { issued: key, replaced: null, response: null }
        await expect(repository.commit({ ...change, audit: [first, first] })).rejects.toThrow()
        expect((await auditOf()).entries).toEqual([])
        expect(await repository.findById(key.record.id)).toBeNull()
        await repository.commit({ ...change, audit: entries })
        expect((await auditOf()).entries).toEqual([second, first])
      })

      test.each([
        ['changed', sql`update audit set actor = 'another actor'`],
        ['deleted', sql`delete from audit`],
      ])('cannot be %s: the database rejects it', async (_, statement) => {
        const key = someKey()
        await repository.commit({ issued: key, replaced: null, audit: [auditEntry(key)], response: null })
        await expect(statement.execute(database.writer)).rejects.toThrow(/append-only/)
        const page = await auditOf(1)
        expect(page.entries).toEqual([auditEntry(key)])
      })
    })

    test('keeps the response to an Idempotency-Key for a day', async () => {
      const idempotency = { id: 'a', request: 'r' }
      const keep = {
        issued: null,
        replaced: null,
        audit: [],
        response: { ...idempotency, outcome: '{"x":1}' },
      }
      await repository.commit(keep)
      nowMs += DAY_MS - 1
      await repository.purge()
      expect(await repository.findResponse(idempotency)).toEqual({ kind: 'same_request', outcome: '{"x":1}' })
      expect(await repository.findResponse({ id: 'a', request: 'x' })).toEqual({ kind: 'other_request' })
      nowMs += 1
      expect(await repository.findResponse(idempotency)).toBeNull()
      await repository.purge()
      expect(await repository.commit(keep)).toMatchObject({ kind: 'committed' })
    })

    test('puts revocations and rotations since a moment into the outbox again, but not issued keys', async () => {
      const [early, late, fresh, pending] = [someKey(), someKey(), someKey(), someKey()]
      for (const key of [early, late, fresh, pending]) await insert(repository, key)
      await replace(repository, revoked(early))
      nowMs += 1000
      const since = nowMs
      await replace(repository, revoked(late))
      await repository.deletePendingChanges(await repository.claimChanges(1000))
      await replace(repository, revoked(pending))
      nowMs += 1000
      await repository.requeueChangesSince(since)
      expect(await repository.claimChanges(1000)).toEqual([
        { digest: pending.digest, version: 2, atMs: since },
        { digest: late.digest, version: 2, atMs: nowMs },
      ])
    })

    test('lists for a sync every key that expires after a moment, oldest first, page by page', async () => {
      const ended = someKey({ expiresAtMs: NOW_MS - DAY_MS })
      const kept = [
        someKey({ expiresAtMs: NOW_MS - DAY_MS + 1 }),
        someKey({ revokedAtMs: NOW_MS }),
        someKey(),
      ]
      for (const key of [ended, ...kept]) await insert(repository, key)
      const expiresAfterMs = NOW_MS - DAY_MS
      expect(await repository.countForSync(expiresAfterMs)).toBe(3)
      const first = await repository.listForSync({ expiresAfterMs, limit: 2, afterId: null })
      const second = await repository.listForSync({ expiresAfterMs, limit: 2, afterId: first.nextAfterId })
      expect([...first.keys, ...second.keys]).toEqual(kept)
      expect(second.nextAfterId).toBeNull()
    })
  })

  const describeSeveral = severalConsoles ? describe : () => {}
  describeSeveral(`two consoles on ${name}`, () => {
    let consoles: readonly [Repository, Repository]
    let nowMs: number
    beforeEach(async () => {
      nowMs = NOW_MS
      const url = await freshUrl()
      const clock = { wallMs: () => nowMs, monotonicMs: () => nowMs }
      consoles = await Promise.all([openRepository(url, clock, 'a'), openRepository(url, clock, 'b')])
    })
    afterEach(() => Promise.all(consoles.map(repository => repository.close())))

    test('share the outbox: a change that one has claimed is left alone by the other for two seconds', async () => {
      const [a, b] = consoles
      const keys = Array.from({ length: 10 }, () => someKey())
      for (const key of keys) await insert(a, key)
      const [ofA, ofB] = await Promise.all([a.claimChanges(5), b.claimChanges(5)])
      expect(new Set([...ofA, ...ofB].map(note => note.digest)).size).toBe(10)
      expect(await b.claimChanges(10)).toHaveLength(5)
      nowMs += 2000
      expect(await b.claimChanges(10)).toHaveLength(10)
      // Made by a clock that is an hour ahead.
      nowMs -= 3_600_000
      expect(await a.claimChanges(10)).toHaveLength(10)
    })

    test('delete the same changes from the outbox without a deadlock', async () => {
      const [a, b] = consoles
      for (let round = 0; round < 5; round++) {
        const notes: PendingChange[] = []
        // Those that wait for a connection do so for 3 s at most, which is little on a busy machine.
        for (let more = 0; more < 10; more++) {
          const keys = Array.from({ length: 15 }, () => someKey())
          notes.push(...(await Promise.all(keys.map(key => insert(a, key)))).filter(note => note !== null))
        }
        await Promise.all([
          a.deletePendingChanges(notes),
          b.deletePendingChanges(notes.toReversed()),
          b.claimChanges(500),
        ])
        // Changes that one skipped because the other had locked them.
        await a.deletePendingChanges(notes)
        expect(await b.countPending()).toBe(0)
      }
    })

    test('issue keys with one hint, or change one key: one of them succeeds', async () => {
      for (let round = 0; round < 10; round++) {
        const twins = Array.from({ length: 6 }, () => someKey({ hint: `wsk_…${round}` }))
        const issued = await Promise.all(twins.map((key, index) => insert(consoles[index % 2 ? 1 : 0], key)))
        expect(issued.filter(note => note !== null)).toHaveLength(1)
        const key = someKey()
        await insert(consoles[0], key)
        const changes = Array.from({ length: 6 }, (_, index) =>
          replace(consoles[index % 2 ? 1 : 0], revoked(key)),
        )
        expect((await Promise.all(changes)).filter(note => note !== null)).toHaveLength(1)
      }
    })
  })
}

const DAY_MS = 86_400_000

function auditEntry({ record }: StoredKey): AuditEntry {
  const { id: keyId, workspaceId } = record
  const id = keyId.replace('key_', 'audit_')
  const detail = { name: record.name, scopes: record.scopes, overlapSeconds: 1.5 }
  return { id, workspaceId, atMs: NOW_MS, actor: 'admin-token', action: 'key.issued', keyId, detail }
}
