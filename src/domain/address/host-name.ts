/**
 * The name of a server in TLS: without the dot that ends an absolute name. The dot tells a resolver to skip its search
 * domains, and is no part of the name in SNI (RFC 6066, section 3) or in a certificate.
 */
export function withoutFinalDot(name: string): string {
  return name.endsWith('.') ? name.slice(0, -1) : name
}

/** IPv6 literals carry brackets in a URL (RFC 3986, section 3.2.2), but not in a socket address. */
export function withoutBrackets(host: string): string {
  return host.replace(/^\[|\]$/g, '')
}
