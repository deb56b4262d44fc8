import type { KeyGrant } from './key-record.ts'

/** Where records are, from near to far. */
export type TierName = 'memory' | 'redis' | 'key_service'

/** The result of a lookup. `unknown` never means that the key does not exist. */
export type Lookup =
  | { readonly kind: 'found'; readonly grant: KeyGrant; readonly tier: TierName }
  /** The authority itself says that there is no such key. */
  | { readonly kind: 'absent'; readonly tier: TierName }
  /** No tier could answer. */
  | { readonly kind: 'unknown' }
