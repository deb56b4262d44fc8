/** The state of a client's connection. */
export type ConnectionState =
  | { readonly kind: 'open' }
  /** The client has closed its side; its responses are still sent (RFC 9112, section 9.6). */
  | { readonly kind: 'half_closed' }
  /** The pending responses are the last ones: all further input is discarded. */
  | { readonly kind: 'last_responses' }
  /** As above, followed by this complete response. */
  | { readonly kind: 'rejected'; readonly response: string }
  /** Our side of the connection is closed. */
  | { readonly kind: 'closing' }
