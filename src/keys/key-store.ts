import type { KeyGrant } from '../domain/key-record.ts'
import type { Lookup, TierName } from '../domain/lookup.ts'

export type { TierName } from '../domain/lookup.ts'

/** Four answers, never three: a tier that does not know, and one that could not be asked, are neither of them a "no". */
export type TierAnswer =
  | { readonly kind: 'found'; readonly grant: KeyGrant }
  /** There is no such key. Only the authority says so (and a tier that remembers that it did). */
  | { readonly kind: 'absent' }
  /** This tier does not know, or holds what nobody can read; the next one might know. */
  | { readonly kind: 'miss'; readonly unreadable?: true }
  /** This tier gave no answer that is of use. */
  | { readonly kind: 'failed'; readonly error: Error; readonly why: FailureReason }

/**
 * What a failure says of the tier. `unreachable`: nobody answered, or not in time; whoever asks next for any key will meet
 * the same. `unusable`: it did answer, and what it said of this one key is of no use. `withheld`: it was not asked.
 */
export type FailureReason = 'unreachable' | 'unusable' | 'withheld'

/** One place where records are. It never throws: trouble is an answer. */
export interface KeyTier {
  readonly name: TierName
  /** @param digest SHA-256 of the key in lower-case hex */
  get(digest: string): Promise<TierAnswer>
}

/** All that the gateway knows of key look-ups. An answer from memory comes at once, without a promise. */
export interface KeyStore {
  /** @param digest SHA-256 of the key in lower-case hex */
  get(digest: string): Lookup | Promise<Lookup>
}
