import type { KeyGrant } from './key-record.ts'

/** What a gateway knows of a key after asking: unknown is never "no". */
export type Lookup =
  | { readonly kind: 'found'; readonly grant: KeyGrant }
  /** The authority itself says that there is no such key. */
  | { readonly kind: 'absent' }
  /** Nobody could say. */
  | { readonly kind: 'unknown' }
