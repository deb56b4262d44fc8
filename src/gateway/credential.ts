import type { RequestHead } from './request-head.ts'

/**
 * What a request presents. Only the digest of a credential goes further, and only where it can be one of ours: no store
 * is asked for any other.
 */
export type Credential =
  | { readonly ok: true; readonly digest: string }
  | { readonly ok: false; readonly reason: 'key_missing' | 'key_malformed' }

/** A kind of credential: how it is read from a request, and how it is proven before a store is asked. */
export interface CredentialScheme {
  /** Checks 4 and 5, as far as the request alone can tell. */
  read(head: Pick<RequestHead, 'authorization'>): Credential
  /** With which every credential begins, so that one in the wrong place is found; null where that is unknown. */
  readonly prefix: string | null
}
