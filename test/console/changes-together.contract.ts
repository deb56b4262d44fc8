import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { searchAudit } from '../../src/console/audit/rows.ts'
import type { AuditEntry } from '../../src/console/platform/audit/entries.ts'
import type { AuditedDatabase } from '../../src/console/platform/audit/mac.ts'
import type { StoredKey } from '../../src/domain/key/key-record.ts'
import { openDatabase } from '../support/open-database.ts'
import { createRepository, insert, type Repository } from '../support/repository.ts'
import { NOW_MS, revoked, someKey } from '../support/stored-keys.ts'

const KEYS = 20

/** @param freshUrl the address of a PostgreSQL database without rows */
export function describeChangesTogether(freshUrl: () => Promise<string>): void {
  describe('changes of many keys at once', () => {
    let database: AuditedDatabase
    let repository: Repository
    let nowMs = NOW_MS
    beforeEach(async () => {
      // Later at each look, so that each transaction has a time of its own.
      const clock = { wallMs: () => nowMs++, monotonicMs: () => nowMs }
      database = await openDatabase(await freshUrl())
      repository = createRepository(database, clock, 'console-1')
      await repository.registerRegions(['eu', 'us'])
    })
    afterEach(() => repository.close())

    async function storedKeys(): Promise<StoredKey[]> {
      const keys = Array.from({ length: KEYS }, () => someKey())
      for (const key of keys) await insert(repository, key)
      return keys
    }
    const commit = (replaced: StoredKey) =>
      repository.commit({ issued: null, replaced, audit: [auditOf(replaced)], response: null })
    const audited = async () => {
      const query = { filter: {}, workspaces: ['ws_1'], limit: 100, afterId: null }
      const { entries } = await searchAudit(database, query)
      return entries.map(({ id }) => id).toSorted()
    }

    test('are committed by one transaction, each with its audit entry and its place in every outbox', async () => {
      const keys = (await storedKeys()).map(key => revoked(key))
      const outcomes = await Promise.all(keys.map(commit))
      const pending = outcomes.flatMap(outcome => (outcome.kind === 'committed' ? outcome.pending : []))
      expect(pending.map(({ digest, version }) => ({ digest, version }))).toEqual(
        keys.map(({ digest }) => ({ digest, version: 2 })),
      )
      expect(new Set(pending.map(({ atMs }) => atMs)).size).toBe(1)
      for (const { digest, record } of keys) {
        expect(await repository.findByDigest(digest)).toEqual({ digest, record })
        for (const region of ['eu', 'us']) {
          const changes = await repository.pendingIn(region).findPendingChanges(digest)
          expect(changes.map(({ version }) => version)).toEqual([1, 2])
        }
      }
      expect(await audited()).toEqual(keys.map(key => auditOf(key).id).toSorted())
    })

    test('do not overwrite each other: of several of one key the first is committed, the others are stale', async () => {
      const [first, ...others] = await storedKeys()
      if (first === undefined) throw new Error('No key')
      const renamed = (name: string) => ({ ...first, record: { ...first.record, name, version: 2 } })
      const changes = [...others.slice(0, 2).map(key => revoked(key)), renamed('a'), renamed('b')]
      const outcomes = await Promise.all(changes.map(commit))
      expect(outcomes.map(({ kind }) => kind)).toEqual(['committed', 'committed', 'committed', 'stale'])
      expect((await repository.findByDigest(first.digest))?.record.name).toBe('a')
      expect(await audited()).toHaveLength(3)
    })

    test('do not fail with one that the database rejects', async () => {
      const [first, second, third] = await storedKeys()
      if (first === undefined || second === undefined || third === undefined) throw new Error('No keys')
      const rejected = { ...second, record: { ...second.record, name: 'not a text\0', version: 2 } }
      const outcomes = await Promise.allSettled([revoked(first), rejected, revoked(third)].map(commit))
      expect(outcomes.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled'])
      expect((await repository.findByDigest(third.digest))?.record.revokedAtMs).toBe(NOW_MS)
      expect((await repository.findByDigest(second.digest))?.record).toEqual(second.record)
      expect(await audited()).toEqual([auditOf(first).id, auditOf(third).id].toSorted())
    })
  })
}

function auditOf({ record }: StoredKey): AuditEntry {
  const { id, workspaceId, name } = record
  return {
    id: `aud_${id.slice(-26)}${name.slice(0, 1)}`,
    workspaceId,
    atMs: NOW_MS,
    actor: 'admin-token',
    action: 'key.revoked',
    keyId: id,
    detail: {},
  }
}
