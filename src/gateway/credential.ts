import type { RequestHead } from './request-head.ts'

/**
 * The credential of a request. Later steps receive only its digest, and only if its form and MAC are valid: other
 * credentials cost no lookup.
 */
export type Credential =
  /** @property isUnsigned it has no MAC: a client can invent any number of these, and each costs a lookup */
  | { readonly ok: true; readonly digest: string; readonly isUnsigned: boolean }
  | { readonly ok: false; readonly reason: 'key_missing' | 'key_malformed' }

/** A kind of credential: how it is read from a request and verified before the lookup. */
export interface CredentialScheme {
  /** Performs checks 4 and 5 of the contract, as far as possible without a lookup. */
  read(head: Pick<RequestHead, 'authorization'>): Credential
  /** Prefix of all credentials, to find one in a wrong place; null if they have none. */
  readonly prefix: string | null
}
