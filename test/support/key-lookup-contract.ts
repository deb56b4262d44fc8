import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { KeyRecord } from '../../src/domain/key/key-record.ts'
import type { Lookup } from '../../src/domain/key/lookup.ts'
import type { TierAnswer } from '../../src/keys/key-store.ts'
import { digestNo, grantOf, recordOf } from './key-records.ts'

/** What the suite needs of a place where keys are looked up. */
export interface LookupUnderTest {
  get(digest: string): Promise<TierAnswer | Lookup>
  put(digest: string, record: KeyRecord): void | Promise<void>
  /** Makes every question fail, until `mend`. */
  break?(): void | Promise<void>
  mend?(): void | Promise<void>
  stop?(): void | Promise<void>
}

export interface ContractTerms {
  /** What is said of a key that is nowhere. */
  readonly ofUnknownKey: 'absent' | 'miss'
  /** What is said while nobody can be asked; or why that cannot be. */
  readonly whileBroken: 'failed' | 'unknown' | { readonly cannotBe: string }
}

let used = 0
/** A digest of its own for each test: they share one place. */
function freshDigest(): string {
  return digestNo(1_000 + used++)
}

/** The guarantees of every lookup, whoever answers it. */
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

    test('finds what was written, with all that decides a request', async () => {
      const digest = freshDigest()
      const record = recordOf({ workspaceId: 'ws_of.this~one', scopes: ['files:read'], version: 7 })
      await place.put(digest, record)
      expect(await place.get(digest)).toMatchObject({ kind: 'found', grant: grantOf(record) })
    })

    test('finds revoked and expired records too: who decides must be able to say why', async () => {
      const digest = freshDigest()
      const record = recordOf({ revokedAtMs: 1_000, expiresAtMs: 2_000 })
      await place.put(digest, record)
      expect(await place.get(digest)).toMatchObject({ kind: 'found', grant: grantOf(record) })
    })

    test(`says "${terms.ofUnknownKey}" of a key that is nowhere`, async () => {
      expect(await place.get(freshDigest())).toMatchObject({ kind: terms.ofUnknownKey })
    })

    test('gives each key its own record, however many are asked for at once', async () => {
      const asked = Array.from({ length: 200 }, (_, index) => ({ digest: freshDigest(), id: `key_${index}` }))
      for (const { digest, id } of asked) await place.put(digest, recordOf({ id }))
      const answers = await Promise.all(asked.map(({ digest }) => place.get(digest)))
      expect(answers.map(answer => (answer.kind === 'found' ? answer.grant.id : answer.kind))).toEqual(
        asked.map(({ id }) => id),
      )
    })

    const { whileBroken } = terms
    // An exception names its reason where the suite is run.
    if (typeof whileBroken === 'object') return

    test(`says "${whileBroken}" and never throws while nobody can be asked, and finds keys again later`, async () => {
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
