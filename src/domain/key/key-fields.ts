import { MAX_CIDRS, normalizeCidrs } from '../form/address.ts'
import { hasVisible } from '../form/text.ts'
import { eachText, KEY_TEXTS, type KeyTexts, TEXT_NAMES, type TextName } from './key-texts.ts'
import { holdsSecretForm } from './secret.ts'

export const MAX_NAME_LENGTH = 100
export const NAME_EXPECTED = `1 to ${MAX_NAME_LENGTH} characters, none of them a control character`
const VISIBLE_NAME_EXPECTED = 'a name with at least one visible character'
export const ALLOWED_CIDRS_EXPECTED = `a list of at most ${MAX_CIDRS} IP addresses or CIDRs, such as 192.0.2.0/24 or 2001:db8::/32`
export const PLAN_EXPECTED = 'null or the name of a plan of the settings (limits.plans)'
const CONTROL_CHARACTER = /\p{Cc}/u

export type Planned<Value> =
  | { readonly ok: true; readonly value: Value }
  /** @property expected what the field must be, in words that follow `must be` */
  | { readonly ok: false; readonly field: string; readonly expected: string }

export function wrong(field: string, expected: string): { ok: false; field: string; expected: string } {
  return { ok: false, field, expected }
}

/** The fields of a key that people choose when they issue it and may change later. */
export interface ChosenFields extends KeyTexts {
  readonly name: string
  /** Networks that requests may come from, as `normalizeCidrs` returns them; empty if every address is allowed. */
  readonly allowedCidrs: readonly string[]
  /** The name of the plan whose rate limits hold for the key; null for those of keys without a plan. */
  readonly plan: string | null
}
export type ChosenField = keyof ChosenFields
/** Those that decide what requests with the key may do. */
export type Restriction = Exclude<ChosenField, 'name' | TextName>

/** Nothing chosen. */
export const BLANK_FIELDS: ChosenFields = { name: '', ...eachText(() => null), allowedCidrs: [], plan: null }
// `Object.keys` forgets the type of a closed record's keys.
export const CHOSEN_FIELDS = Object.keys(BLANK_FIELDS) as readonly ChosenField[]

/** The same, as a caller sends them; absent ones stay. Null or an empty one clears a text, list or plan. */
export interface RequestedFields extends RequestedTexts {
  readonly name?: string | undefined
  readonly allowedCidrs?: readonly string[] | null | undefined
  readonly plan?: string | null | undefined
}
type RequestedTexts = { readonly [Name in TextName]?: string | null | undefined }

/** What decides whether fields are right. */
export interface FieldContext {
  /** What keys begin with: no text may hold a key. */
  readonly keyPrefix: string
  /** Plans configured in this installation. */
  readonly knownPlans: readonly string[]
}

/** The fields as the record holds them, or the first that is wrong. */
export function planFields(
  requested: RequestedFields,
  current: ChosenFields,
  { keyPrefix, knownPlans }: FieldContext,
): Planned<ChosenFields> {
  const { name = current.name } = requested
  const expectedName = problemOfKeyName(name)
  if (expectedName !== null) return wrong('name', expectedName)
  if (holdsSecretForm(name, keyPrefix)) return wrong('name', 'a name without an API key or token in it')
  const texts = eachText(text => chooseText(requested[text], current[text]))
  for (const text of TEXT_NAMES) {
    const expected = problemOfText(text, texts[text], keyPrefix)
    if (expected !== null) return wrong(text, expected)
  }
  const cidrs = requested.allowedCidrs === undefined ? current.allowedCidrs : (requested.allowedCidrs ?? [])
  const allowedCidrs = cidrs.length > MAX_CIDRS ? null : normalizeCidrs(cidrs)
  if (allowedCidrs === null) return wrong('allowedCidrs', ALLOWED_CIDRS_EXPECTED)
  const plan = chooseText(requested.plan, current.plan)
  // One that is no longer configured may stay.
  if (plan !== current.plan && !isKnownPlan(plan, knownPlans)) return wrong('plan', planExpected(knownPlans))
  return { ok: true, value: { name, ...texts, allowedCidrs, plan } }
}

/** @param plan null: none */
export function isKnownPlan(plan: string | null, knownPlans: readonly string[]): boolean {
  return plan === null || knownPlans.includes(plan)
}

export function planExpected(knownPlans: readonly string[]): string {
  if (knownPlans.length === 0) return 'null: no plan is configured (limits.plans)'
  return `null or one of ${[...knownPlans].sort().join(', ')}`
}

function chooseText(requested: string | null | undefined, current: string | null): string | null {
  if (requested === undefined) return current
  return requested === '' ? null : requested
}

export function textExpected(name: TextName): string {
  return `null or at most ${KEY_TEXTS[name].maxLength} characters, none of them a control character or line break`
}

/** @returns what the text must be; null if it is */
function problemOfText(name: TextName, text: string | null, keyPrefix: string): string | null {
  if (text === null) return null
  if (!isLine(text, KEY_TEXTS[name].maxLength)) return textExpected(name)
  return holdsSecretForm(text, keyPrefix) ? 'a text without an API key or token in it' : null
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
