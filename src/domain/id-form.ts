/** The form of the ids that the console gives: a kind and a ULID, which is Crockford's base 32 without I, L, O and U. */
const FORMS = {
  key: /^key_[0-9A-HJKMNP-TV-Z]{26}$/,
  /** An entry of the audit log. */
  audit: /^audit_[0-9A-HJKMNP-TV-Z]{26}$/,
  /** A webhook event. */
  msg: /^msg_[0-9A-HJKMNP-TV-Z]{26}$/,
  /** An admin token. */
  tok: /^tok_[0-9A-HJKMNP-TV-Z]{26}$/,
} as const satisfies Readonly<Record<string, RegExp>>

/** The name of a route, of a rate limit policy or of a plan. */
export const SHORT_NAME = /^[a-z][a-z0-9-]{0,31}$/

/** What ids begin with. */
export type IdKind = keyof typeof FORMS

export function isId(kind: IdKind, text: string): boolean {
  return FORMS[kind].test(text)
}

export const KEY_ID_EXPECTED = 'a key id'

export function isKeyId(text: string): boolean {
  return isId('key', text)
}

/** As part of a pattern of a JSON Schema: without its anchors. */
export function idPattern(kind: IdKind): string {
  return FORMS[kind].source.slice(1, -1)
}
