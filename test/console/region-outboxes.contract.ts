import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { enqueueChanges } from '../../src/console/announcing/outbox-rows.ts'
import type { AuditedDatabase } from '../../src/console/platform/audit/mac.ts'
import { openDatabase } from '../support/open-database.ts'
import { createRepository, insert, type Repository, replace } from '../support/repository.ts'
import { NOW_MS, revoked, someKey } from '../support/stored-keys.ts'

/** @param freshUrl the address of a database that is empty */
export function describeRegionOutboxes(name: string, freshUrl: () => Promise<string>): void {
  describe(`the outboxes of regions in ${name}`, () => {
    let database: AuditedDatabase
    let repository: Repository
    let nowMs: number
    beforeEach(async () => {
      database = await openDatabase(await freshUrl())
      // Read last: the region of the new database is no younger, however long opening it took.
      nowMs = Date.now()
      const clock = { wallMs: () => nowMs, monotonicMs: () => nowMs }
      repository = createRepository(database, clock, 'console-1')
    })
    afterEach(() => repository.close())

    const pending = async (region: string) =>
      (await repository.pendingIn(region).claimChanges(100)).map(({ digest, version }) => [digest, version])

    async function register(...names: string[]) {
      await repository.registerRegions(names)
      for (const name of names) while (await repository.pendingIn(name).requeueNextKeys()) {}
    }

    test('get every change, and each is emptied without the others', async () => {
      await register('eu', 'us')
      const key = someKey()
      const change = await insert(repository, key)
      if (change === null) throw new Error('The hint of the key is taken')
      await repository.pendingIn('eu').deletePendingChanges([change])
      expect(await pending('eu')).toEqual([])
      expect(await repository.pendingIn('eu').pendingSpan()).toBeNull()
      expect(await pending('us')).toEqual([[key.digest, 1]])
      expect(await repository.pendingIn('us').findPendingChanges(key.digest)).toEqual([change])
      expect(await repository.pendingIn('us').hasPendingUntil(key.record.workspaceId, nowMs)).toBe(true)
      expect(await repository.pendingIn('us').hasPendingUntil('another', nowMs)).toBe(false)
      expect(await repository.pendingIn('us').hasPendingUntil(null, nowMs)).toBe(true)
      expect(await repository.pendingIn('eu').hasPendingUntil(null, nowMs)).toBe(false)
      expect(await repository.pendingIn('us').countPending()).toBe(1)
      expect(await repository.pendingIn('us').oldestPendingMs()).toBe(nowMs)
      expect(await repository.pendingIn('eu').oldestPendingMs()).toBeNull()
      expect(await repository.countPending()).toBe(1)
      await repository.deletePendingChanges([change])
      expect(await pending('us')).toEqual([[key.digest, 1]])
    })

    test('are emptied of what the marked Redis has, also where deletions share a statement', async () => {
      await register('eu')
      const [former, now] = [await insert(repository, someKey()), await insert(repository, someKey())]
      if (former === null || now === null) throw new Error('The hint of the key is taken')
      const outbox = repository.pendingIn('eu')
      for (const [from, to] of [
        ['', 'former'],
        ['former', 'now'],
      ] as const)
        await outbox.claimMark(from, to)
      await Promise.all([
        outbox.deletePendingChanges([former], 'former'),
        outbox.deletePendingChanges([now], 'now'),
      ])
      expect(await pending('eu')).toEqual([[former.digest, 1]])
      await outbox.deletePendingChanges([former])
      expect(await outbox.countPending()).toBe(1)
    })

    test('get every change of a transaction with thousands, more than fit into one statement', async () => {
      const regions = ['asia', 'eu', 'us']
      const changes = Array.from({ length: 2_001 }, (_, index) => ({
        digest: index.toString(16).padStart(64, '0'),
        version: 2,
        atMs: nowMs,
      }))
      await repository.registerRegions(regions)
      await database.writer.transaction().execute(tx => enqueueChanges(tx, changes))
      for (const region of regions) {
        expect(await repository.pendingIn(region).claimChanges(10_000)).toEqual(changes)
      }
    })

    test('are announced by several consoles, each change by one', async () => {
      await register('eu', 'us')
      for (let keys = 0; keys < 4; keys++) await insert(repository, someKey())
      const clock = { wallMs: () => nowMs, monotonicMs: () => nowMs }
      const other = createRepository(database, clock, 'console-2')
      expect(await repository.pendingIn('eu').claimChanges(3)).toHaveLength(3)
      expect(await other.pendingIn('eu').claimChanges(10)).toHaveLength(1)
      expect(await other.pendingIn('us').claimChanges(10)).toHaveLength(4)
    })

    test.each(['default', 'eu'])(
      'respect a claim by a console whose clock is up to two seconds ahead, and none by one further ahead: %s',
      async region => {
        await register('eu')
        await insert(repository, someKey())
        const clock = { wallMs: () => nowMs, monotonicMs: () => nowMs }
        const other = createRepository(database, clock, 'console-2')
        const claimAhead = async (ms: number) => {
          nowMs += ms
          expect(await repository.pendingIn(region).claimChanges(10)).toHaveLength(1)
          nowMs -= ms
        }
        await claimAhead(2_000)
        expect(await other.pendingIn(region).claimChanges(10)).toEqual([])
        await claimAhead(2_001)
        expect(await other.pendingIn(region).claimChanges(10)).toHaveLength(1)
      },
    )

    test('put changes since a time into the outbox of one region again', async () => {
      await register('eu', 'us')
      const key = someKey()
      await insert(repository, key)
      await replace(repository, revoked(key))
      for (const region of ['eu', 'us']) {
        const outbox = repository.pendingIn(region)
        await outbox.deletePendingChanges(await outbox.claimChanges(10))
      }
      await repository.pendingIn('us').requeueChangesSince(NOW_MS - 1)
      expect(await pending('us')).toEqual([[key.digest, 2]])
      expect(await pending('eu')).toEqual([])
    })

    test('of a region that is added holds the changes of all keys, before heartbeats may begin', async () => {
      const [changed, issued, expired, old] = [
        someKey({ expiresAtMs: nowMs + 86_400_000 }),
        someKey({ expiresAtMs: nowMs + 86_400_000 }),
        // By a rotation, perhaps: an earlier record of it may not have expired.
        someKey({ expiresAtMs: nowMs - 3 * 86_400_000 }),
        someKey({ expiresAtMs: nowMs - 86_400_000 }),
      ]
      for (const key of [changed, issued, expired, old]) await insert(repository, key)
      nowMs -= 368 * 86_400_000
      await replace(repository, revoked(old))
      nowMs += 368 * 86_400_000
      for (const key of [changed, expired]) await replace(repository, revoked(key))
      await expect(repository.pendingIn('eu').pendingSpan()).rejects.toThrow('eu')
      await repository.registerRegions(['eu'])
      await expect(repository.pendingIn('eu').pendingSpan()).rejects.toThrow('eu')
      await register('eu')
      expect((await pending('eu')).toSorted()).toEqual(
        [changed, expired].map(({ digest }) => [digest, 2]).toSorted(),
      )
      expect(await repository.pendingIn('eu').pendingSpan()).toEqual({ oldestMs: nowMs, newestMs: nowMs })
      await repository.pendingIn('eu').deletePendingChanges(await repository.pendingIn('eu').claimChanges(9))
      await register('eu')
      expect(await pending('eu')).toEqual([])
    })

    test('are deleted ten minutes after the last console with the region was there', async () => {
      await register('eu', 'us')
      await insert(repository, someKey())
      nowMs += 599_000
      await register('eu')
      expect(await repository.forgetRegions()).toEqual([])
      nowMs += 2_000
      expect((await repository.forgetRegions()).toSorted()).toEqual(['default', 'us'])
      await repository.purge()
      expect(await repository.pendingIn('us').countPending()).toBe(0)
      expect(await repository.countPending()).toBe(0)
      expect(await repository.pendingIn('eu').countPending()).toBe(1)
      await insert(repository, someKey())
      expect(await repository.pendingIn('us').countPending()).toBe(0)
      expect(await repository.pendingIn('eu').countPending()).toBe(2)
      await expect(repository.pendingIn('us').pendingSpan()).rejects.toThrow('us')
    })
  })
}
