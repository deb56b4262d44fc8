import type { KeyGrant } from '../domain/key/key-record.ts'
import type { Lookup, TierName } from '../domain/key/lookup.ts'

/** Where a lookup goes if memory has no fresh answer. */
export type StoreName = Exclude<TierName, 'memory'>

/** A store that does not know the key, and one that did not answer, say nothing about whether the key exists. */
export type TierAnswer =
  | { readonly kind: 'found'; readonly grant: KeyGrant }
  /** There is no such key. Only the key service says so. */
  | { readonly kind: 'absent' }
  /** The store does not know the key, or holds an entry that cannot be read; the next one might know. */
  | { readonly kind: 'miss'; readonly unreadable?: true }
  /** The store gave no usable answer. */
  | { readonly kind: 'failed'; readonly error: Error; readonly why: FailureReason }

/**
 * What a failure says about the store. `unreachable`: no answer in time; lookups of other keys will fail as well.
 * `unusable`: an answer that cannot be used for this key. `skipped`: no request was sent, because its circuit is open.
 */
export type FailureReason = 'unreachable' | 'unusable' | 'skipped'

/** A store of records. It never rejects: a failure is an answer. */
export interface KeyTier {
  readonly name: StoreName
  /** @param digest SHA-256 of the key in lower-case hex */
  get(digest: string): Promise<TierAnswer>
}

/** Looks keys up. An answer from memory comes at once, without a promise. */
export interface KeyStore {
  /** @param digest SHA-256 of the key in lower-case hex */
  get(digest: string): Lookup | Promise<Lookup>
}
