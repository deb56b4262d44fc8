import { MAX_CIDRS, normalizeCidrs } from '../address/cidr.ts'
import { hasVisible } from '../visible-text.ts'
import { holdsKeyForm } from './secret.ts'

export const MAX_NAME_LENGTH = 100
export const MAX_DESCRIPTION_LENGTH = 500
export const NAME_EXPECTED = `1 to ${MAX_NAME_LENGTH} characters, none of them a control character`
const VISIBLE_NAME_EXPECTED = 'a name with at least one visible character'
export const DESCRIPTION_EXPECTED = `null or at most ${MAX_DESCRIPTION_LENGTH} characters, none of them a control character or line break`
export const ALLOWED_CIDRS_EXPECTED = `a list of at most ${MAX_CIDRS} IP addresses or CIDRs, such as 192.0.2.0/24 or 2001:db8::/32`
const CONTROL_CHARACTER = /\p{Cc}/u

export type Planned<Value> =
  | { readonly ok: true; readonly value: Value }
  /** @property expected what the field must be, in words that follow `must be` */
  | { readonly ok: false; readonly field: string; readonly expected: string }

export function wrong(field: string, expected: string): { ok: false; field: string; expected: string } {
  return { ok: false, field, expected }
}

/** Fields of a key that people choose when they issue it and may change later. */
export interface KeyTexts {
  readonly name?: string | undefined
  readonly description?: string | null | undefined
  readonly allowedCidrs?: readonly string[] | null | undefined
}

export interface PlannedTexts {
  readonly name: string
  readonly description: string | null
  readonly allowedCidrs: readonly string[]
}

/**
 * The fields as the record holds them, or the first that is wrong. An absent one keeps its value; null or an empty one
 * clears a description or list.
 * @param keyPrefix what keys begin with: no text may hold a key
 */
export function planTexts(
  requested: KeyTexts,
  current: PlannedTexts,
  keyPrefix: string,
): Planned<PlannedTexts> {
  const { name = current.name, description = current.description } = requested
  const expectedName = problemOfKeyName(name)
  if (expectedName !== null) return wrong('name', expectedName)
  if (holdsKeyForm(name, keyPrefix)) return wrong('name', 'a name without an API key in it')
  const text = description === '' ? null : description
  if (text !== null && !isLine(text, MAX_DESCRIPTION_LENGTH))
    return wrong('description', DESCRIPTION_EXPECTED)
  if (text !== null && holdsKeyForm(text, keyPrefix)) {
    return wrong('description', 'a description without an API key in it')
  }
  const cidrs = requested.allowedCidrs === undefined ? current.allowedCidrs : (requested.allowedCidrs ?? [])
  const allowedCidrs = cidrs.length > MAX_CIDRS ? null : normalizeCidrs(cidrs)
  if (allowedCidrs === null) return wrong('allowedCidrs', ALLOWED_CIDRS_EXPECTED)
  return { ok: true, value: { name, description: text, allowedCidrs } }
}

/** @returns what the name must be; null if it is */
export function problemOfKeyName(text: string): string | null {
  if (text === '' || !isLine(text, MAX_NAME_LENGTH)) return NAME_EXPECTED
  return hasVisible(text) ? null : VISIBLE_NAME_EXPECTED
}

export function isKeyName(text: string): boolean {
  return problemOfKeyName(text) === null
}

/** Unpaired surrogates are rejected too: UTF-8, and so the database, has no form for them. */
function isLine(text: string, maxLength: number): boolean {
  return [...text].length <= maxLength && !CONTROL_CHARACTER.test(text) && text.isWellFormed()
}
