import type { KeyGrant, Lookup, TierName } from '../../domain/key/key-record.ts'

/** The stores that a lookup asks if memory has no fresh entry. */
export type StoreName = Exclude<TierName, 'memory'>

/** The result of asking one store. `miss` and `failed` never mean that the key does not exist. */
export type TierResult =
  | { readonly kind: 'found'; readonly grant: KeyGrant }
  /** There is no such key. Only the key service returns this. */
  | { readonly kind: 'absent' }
  /** The store has no record of the key, or an entry that cannot be read; the next store may have one. */
  | { readonly kind: 'miss'; readonly unreadable?: true }
  /** The store returned no usable response. */
  | { readonly kind: 'failed'; readonly error: Error; readonly why: FailureReason }

/**
 * `unreachable`: no response in time; lookups of other keys will fail as well. `unusable`: the response cannot be used
 * for this key. `skipped`: no request was sent, because the circuit is open.
 */
export type FailureReason = 'unreachable' | 'unusable' | 'skipped'

/** A store of records. `get` never rejects: it returns a failure as a result. */
export interface KeyTier {
  readonly name: StoreName
  /** @param digest SHA-256 of the key in lower-case hex */
  get(digest: string): Promise<TierResult>
}

/** Looks keys up. A result from memory is returned at once, without a promise. */
export interface KeyStore {
  /**
   * @param digest SHA-256 of the key in lower-case hex
   * @param unsignedFrom for a key without a MAC, the address of the client: its lookups are limited
   */
  get(digest: string, unsignedFrom?: string | null): Lookup | Promise<Lookup>
  /** Whether memory has an entry of this digest: then the MAC of its key was checked, with signing secrets still in use. */
  holds(digest: string): boolean
}
