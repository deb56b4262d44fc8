import type { KeyGrant } from './key-record.ts'

/** The stores of records, in the order in which a connected gateway asks them. */
export type TierName = 'memory' | 'redis' | 'key_service'

/** The result of a lookup. `unknown` and `limited` never mean that the key does not exist. */
export type Lookup =
  | { readonly kind: 'found'; readonly grant: KeyGrant; readonly tier: TierName }
  /** The key service confirmed that there is no such key. */
  | { readonly kind: 'absent'; readonly tier: TierName }
  /** No tier could answer. */
  | { readonly kind: 'unknown' }
  /** There was no lookup: too many unknown keys without a MAC were looked up before. */
  | { readonly kind: 'limited' }
