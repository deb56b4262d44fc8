import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { KeyRecord, Lookup } from '../../src/domain/key/key-record.ts'
import type { TierResult } from '../../src/keys/tiers/key-store.ts'
import { digestNo, grantOf, recordOf } from './key-records.ts'

/** What the suite needs of a key lookup. */
export interface LookupUnderTest {
  get(digest: string): Promise<TierResult | Lookup>
  put(digest: string, record: KeyRecord): void | Promise<void>
  /** Makes every lookup fail until `mend`. */
  break?(): void | Promise<void>
  mend?(): void | Promise<void>
  stop?(): void | Promise<void>
}

export interface ContractTerms {
  /** Result for a key that does not exist. */
  readonly ofUnknownKey: 'absent' | 'miss'
  /** Result while the store cannot be reached, or why that cannot happen. */
  readonly whileBroken: 'failed' | 'unknown' | { readonly cannotBe: string }
}

let used = 0
/** A new digest for each test, because the tests share one store. */
function freshDigest(): string {
  return digestNo(1_000 + used++)
}

/** Guarantees of every key lookup, whichever store answers it. */
export function describeKeyLookup(
  name: string,
  create: () => LookupUnderTest | Promise<LookupUnderTest>,
  terms: ContractTerms,
): void {
  describe(`a lookup in ${name}`, () => {
    let place: LookupUnderTest
    beforeAll(async () => {
      place = await create()
    })
    afterAll(() => place.stop?.())

    test('returns the record that was written, with every field that authorization uses', async () => {
      const digest = freshDigest()
      const record = recordOf({ workspaceId: 'ws_of.this~one', scopes: ['files:read'], version: 7 })
      await place.put(digest, record)
      expect(await place.get(digest)).toMatchObject({ kind: 'found', grant: grantOf(record) })
    })

    test('returns revoked and expired records, so that the denial can name the reason', async () => {
      const digest = freshDigest()
      const record = recordOf({ revokedAtMs: 1_000, expiresAtMs: 2_000 })
      await place.put(digest, record)
      expect(await place.get(digest)).toMatchObject({ kind: 'found', grant: grantOf(record) })
    })

    test(`returns "${terms.ofUnknownKey}" for a key that does not exist`, async () => {
      expect(await place.get(freshDigest())).toMatchObject({ kind: terms.ofUnknownKey })
    })

    test('returns the right record for each of many concurrent lookups', async () => {
      const asked = Array.from({ length: 200 }, (_, index) => ({ digest: freshDigest(), id: `key_${index}` }))
      for (const { digest, id } of asked) await place.put(digest, recordOf({ id }))
      const answers = await Promise.all(asked.map(({ digest }) => place.get(digest)))
      expect(answers.map(answer => (answer.kind === 'found' ? answer.grant.id : answer.kind))).toEqual(
        asked.map(({ id }) => id),
      )
    })

    const { whileBroken } = terms
    // Each caller of this suite gives the reason for its exception.
    if (typeof whileBroken === 'object') return

    test(`returns "${whileBroken}" and never throws while the store is down, and finds keys again afterwards`, async () => {
      const [known, unknown] = [freshDigest(), freshDigest()]
      await place.put(known, recordOf())
      await place.break?.()
      const answers = await Promise.all([place.get(known), place.get(unknown)])
      expect(answers.map(answer => answer.kind)).toEqual([whileBroken, whileBroken])
      await place.mend?.()
      expect(await place.get(known)).toMatchObject({ kind: 'found' })
      expect(await place.get(unknown)).toMatchObject({ kind: terms.ofUnknownKey })
    })
  })
}
