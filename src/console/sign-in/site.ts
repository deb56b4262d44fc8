/** The console's one public address. */
export interface Site {
  /** `https://console.example.com` */
  readonly origin: string
  readonly host: string
  /** Whether it is https. Plain http, allowed only on this machine, also means cookies without `Secure`. */
  readonly secure: boolean
  readonly sessionCookie: string
  readonly attemptCookie: string
}

/**
 * The `__Host-` prefix makes browsers accept the cookie only from this host over https, so that no sibling domain can
 * plant one (RFC 6265bis, section 4.1.3). Browsers reject the prefix over plain http.
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

/** Rules out DNS rebinding: a foreign page whose name resolves here has its own name in `Host`. */
export function isOwnHost({ host, secure }: Site, sent: string | undefined): boolean {
  const name = sent?.toLowerCase()
  return name === host || name === `${host}:${secure ? 443 : 80}`
}

/**
 * Whether an unsafe request comes from one of our pages, as far as the browser says. Without these headers (old browsers)
 * the CSRF token decides.
 */
export function isOwnPage(
  { origin }: Site,
  sent: { readonly origin?: string | undefined; readonly 'sec-fetch-site'?: unknown },
): boolean {
  if (sent.origin !== undefined && sent.origin !== origin) return false
  const site = sent['sec-fetch-site']
  return site === undefined || site === 'same-origin' || site === 'none'
}
