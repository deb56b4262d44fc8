import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { KeyRepository } from '../../src/control/registry/key-repository.ts'
import type { Clock } from '../../src/domain/clock.ts'
import { NOW_MS, revoked, someKey } from '../support/stored-keys.ts'

/** What every database behind the registry must do. */
export function describeKeyRepository(
  database: string,
  open: (clock: Clock) => Promise<KeyRepository>,
): void {
  describe(`the registry in ${database}`, () => {
    let repository: KeyRepository
    let nowMs: number
    beforeEach(async () => {
      nowMs = NOW_MS
      repository = await open({ wallMs: () => nowMs, monotonicMs: () => nowMs })
    })
    afterEach(() => repository.close())

    test('gives a key back as it was stored, by id and by digest', async () => {
      const plain = someKey({ name: 'Übung “1” 🔑 <img src=x>' })
      const linked = someKey({ rotatedFrom: plain.record.id, replacedBy: 'key_x', revokedAtMs: NOW_MS })
      for (const key of [plain, linked]) await repository.insert(key)
      expect(await repository.findById(plain.record.id)).toEqual(plain)
      expect(await repository.findByDigest(linked.digest)).toEqual(linked)
    })

    test('says so where there is no such key', async () => {
      const stranger = someKey()
      expect(await repository.findById(stranger.record.id)).toBeNull()
      expect(await repository.findByDigest(stranger.digest)).toBeNull()
    })

    test('notes each change for announcement, until it is forgotten', async () => {
      const key = someKey()
      await repository.insert(key)
      nowMs += 5
      await repository.replace(revoked(key))
      const [issued, revocation, ...more] = await repository.pendingChanges(10)
      expect(issued).toEqual({ digest: key.digest, version: 1, atMs: NOW_MS })
      expect(revocation).toEqual({ digest: key.digest, version: 2, atMs: NOW_MS + 5 })
      expect(more).toEqual([])
      expect(await repository.pendingSpan()).toEqual({ oldestMs: NOW_MS, newestMs: NOW_MS + 5 })
      await repository.forgetChanges([{ digest: key.digest, version: 1, atMs: NOW_MS }])
      expect(await repository.pendingChangesOf(key.digest)).toHaveLength(1)
      await repository.forgetChanges([{ digest: key.digest, version: 2, atMs: NOW_MS + 5 }])
      expect(await repository.pendingChangesOf(key.digest)).toEqual([])
      expect(await repository.pendingSpan()).toBeNull()
    })

    test('stores nothing and notes nothing where a live key of the workspace shows the same hint', async () => {
      const first = someKey()
      const twin = someKey({ hint: first.record.hint })
      await repository.insert(first)
      expect(await repository.insert(twin)).toBeNull()
      expect(await repository.findById(twin.record.id)).toBeNull()
      expect(await repository.pendingChangesOf(twin.digest)).toEqual([])
    })

    test.each([
      ['of another workspace', { workspaceId: 'ws_2' }],
      ['that is revoked', { revokedAtMs: NOW_MS - 1 }],
      ['that expired this moment', { expiresAtMs: NOW_MS }],
    ])('lets a hint be used again that belongs to a key %s', async (_, difference) => {
      const earlier = someKey(difference)
      nowMs -= 10
      await repository.insert(earlier)
      nowMs += 10
      expect(await repository.insert(someKey({ hint: earlier.record.hint }))).not.toBeNull()
    })

    test('never takes the same secret twice', async () => {
      const key = someKey()
      const copy = { record: someKey().record, digest: key.digest }
      await repository.insert(key)
      await expect(repository.insert(copy)).rejects.toThrow()
      expect(await repository.findById(copy.record.id)).toBeNull()
    })

    test('deletes the notes of what was announced also during a burst of changes, and only those', async () => {
      const keys = Array.from({ length: 30 }, () => someKey())
      const noted = await Promise.all(keys.slice(0, 20).map(key => repository.insert(key)))
      const announced = noted.filter(change => change !== null)
      await Promise.all([
        repository.forgetChanges(announced),
        ...keys.slice(20).map(key => repository.insert(key)),
        repository.forgetChanges(announced.slice(0, 3)),
      ])
      const left = (await repository.pendingChanges(100)).map(change => change.digest)
      expect(left.toSorted()).toEqual(
        keys
          .slice(20)
          .map(key => key.digest)
          .toSorted(),
      )
    })

    test('lets one of many concurrent changes to a key win, and notes it once', async () => {
      const key = someKey()
      await repository.insert(key)
      const attempts = Array.from({ length: 8 }, (_, index) =>
        repository.replace(revoked(key, NOW_MS + index)),
      )
      const won = (await Promise.all(attempts)).filter(Boolean)
      expect(won).toHaveLength(1)
      expect((await repository.findById(key.record.id))?.record.version).toBe(2)
      expect(await repository.pendingChanges(10)).toHaveLength(2)
    })

    test('pages through a workspace newest first, unmoved by keys that are issued meanwhile', async () => {
      const keys = Array.from({ length: 5 }, () => someKey())
      for (const key of keys) await repository.insert(key)
      await repository.insert(someKey({ workspaceId: 'ws_2' }))
      const newestFirst = keys.map(key => key.record.id).reverse()
      const first = await repository.list({ workspaceId: 'ws_1', limit: 2, afterId: null })
      await repository.insert(someKey())
      const second = await repository.list({ workspaceId: 'ws_1', limit: 2, afterId: first.nextAfterId })
      const last = await repository.list({ workspaceId: 'ws_1', limit: 2, afterId: second.nextAfterId })
      const seen = [first, second, last].flatMap(page => page.keys.map(key => key.record.id))
      expect(seen).toEqual(newestFirst)
      expect(last.nextAfterId).toBeNull()
    })

    test('counts each key once, by what it is worth now', async () => {
      const minute = 60_000
      const expiring = someKey({ expiresAtMs: NOW_MS + minute })
      for (const key of [someKey(), someKey(), expiring, someKey({ expiresAtMs: NOW_MS })])
        await repository.insert(key)
      const former = someKey({ expiresAtMs: NOW_MS })
      await repository.insert(former)
      await repository.replace(revoked(former))
      expect(await repository.countByState(NOW_MS, NOW_MS + minute)).toEqual({
        active: 2,
        expiring: 1,
        expired: 1,
        revoked: 1,
      })
    })

    test('has no next page where the last one is exactly full', async () => {
      for (const key of [someKey(), someKey()]) await repository.insert(key)
      const page = await repository.list({ workspaceId: 'ws_1', limit: 2, afterId: null })
      expect(page.keys).toHaveLength(2)
      expect(page.nextAfterId).toBeNull()
    })
  })
}
