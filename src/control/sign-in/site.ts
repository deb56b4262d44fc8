/** The console as browsers know it: one address, and no other. */
export interface Site {
  /** `https://console.example.com` */
  readonly origin: string
  readonly host: string
  /** Whether it is https. Where it is not (on this machine alone) cookies cannot be, either. */
  readonly secure: boolean
  readonly sessionCookie: string
  readonly attemptCookie: string
}

/**
 * `__Host-`: browsers then take the cookie only from this very host, over https, for all of its paths, so that no
 * neighbour in the domain can plant one (RFC 6265bis, section 4.1.3). They refuse the name over plain http.
 */
export function siteOf(publicUrl: string): Site {
  const { origin, host, protocol } = new URL(publicUrl)
  const secure = protocol === 'https:'
  const prefix = secure ? '__Host-' : ''
  return {
    origin,
    host,
    secure,
    sessionCookie: `${prefix}postern-session`,
    attemptCookie: `${prefix}postern-sign-in`,
  }
}

/** A page of somebody else's whose name leads to this address (DNS rebinding) has its own name in `Host`. */
export function isOwnHost({ host, secure }: Site, sent: string | undefined): boolean {
  const name = sent?.toLowerCase()
  return name === host || name === `${host}:${secure ? 443 : 80}`
}

/**
 * Whether a request that changes something comes from a page of ours, as far as its browser says. What says nothing is
 * no browser, or an old one: its token has to show it.
 */
export function isOwnPage(
  { origin }: Site,
  sent: { readonly origin?: string | undefined; readonly 'sec-fetch-site'?: unknown },
): boolean {
  if (sent.origin !== undefined && sent.origin !== origin) return false
  const site = sent['sec-fetch-site']
  return site === undefined || site === 'same-origin' || site === 'none'
}
