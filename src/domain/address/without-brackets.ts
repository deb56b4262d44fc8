/** IPv6 literals carry brackets in a URL (RFC 3986, section 3.2.2), but not in a socket address. */
export function withoutBrackets(host: string): string {
  return host.replace(/^\[|\]$/g, '')
}
