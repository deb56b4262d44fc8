import type { KeyGrant } from './key-record.ts'

/** Where records are, from near to far. */
export type TierName = 'memory' | 'redis' | 'key_service'

/** What a gateway knows of a key after asking: unknown is never "no". */
export type Lookup =
  | { readonly kind: 'found'; readonly grant: KeyGrant; readonly tier: TierName }
  /** The authority itself says that there is no such key. */
  | { readonly kind: 'absent'; readonly tier: TierName }
  /** Nobody could say. */
  | { readonly kind: 'unknown' }
