/** The state of a client's connection. */
export type ConnectionState =
  | { readonly kind: 'open' }
  /** The client has sent all that it will send; its answers still leave (RFC 9112, section 9.6). */
  | { readonly kind: 'half_closed' }
  /** The pending responses are the last ones: all further input is dropped. */
  | { readonly kind: 'last_answers' }
  /** The same, and then these bytes, which are a whole answer. */
  | { readonly kind: 'refused'; readonly answer: string }
  /** Our side of the connection has ended. */
  | { readonly kind: 'closing' }
