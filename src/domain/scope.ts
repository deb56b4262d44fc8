/** A scope-token of RFC 6749, section 3.3, at most 64 characters: safe in a header and in a challenge. */
export const SCOPE_TOKEN = /^[\x21\x23-\x5b\x5d-\x7e]{1,64}$/

export function isScope(text: string): boolean {
  return SCOPE_TOKEN.test(text)
}

/** @returns the scopes sorted, without duplicates: equal sets have one form */
export function normalizeScopes(scopes: readonly string[]): string[] {
  return [...new Set(scopes)].sort()
}
