import {
  BLANK_FIELDS,
  type ChosenField,
  type ChosenFields,
  MAX_NAME_LENGTH,
  type RequestedFields,
  type Restriction,
} from '../../domain/key/key-fields.ts'
import { eachText, KEY_TEXTS, TEXT_NAMES } from '../../domain/key/key-texts.ts'
import type { AuditValue } from '../platform/audit/entries.ts'
import {
  type FormFields,
  type Problems,
  readLines,
  select,
  splitList,
  textArea,
  textField,
  textInput,
} from '../platform/html/form-parts.ts'
import {
  actorName,
  copyable,
  fact,
  type Html,
  hintHtml,
  html,
  instantAndAgo,
  lastUsed,
  markInvisible,
  type Piece,
} from '../platform/html/html.ts'
import { type ExpiryChoice, expiryField } from '../platform/html/name-and-expiry.ts'
import { type KeyView, scopeList, stateBadge } from './key-view.ts'

/** The fields of a key that people choose, as forms have them. */
export type ChosenForm = Readonly<Record<ChosenField, string>>

export const BLANK_FORM = fillChosenForm(BLANK_FIELDS)

export function fillChosenForm({ name, allowedCidrs, plan, ...texts }: ChosenFields): ChosenForm {
  return {
    name,
    ...eachText(text => texts[text] ?? ''),
    allowedCidrs: allowedCidrs.join('\n'),
    plan: plan ?? '',
  }
}

export function readChosenForm(fields: FormFields): ChosenForm {
  return {
    name: textField(fields, 'name').trim(),
    ...eachText(text => textField(fields, text).trim()),
    allowedCidrs: readLines(fields, 'allowedCidrs'),
    plan: textField(fields, 'plan').trim(),
  }
}

/** The registry checks them. */
export function requestedFields({
  name,
  allowedCidrs,
  plan,
  ...texts
}: ChosenForm): RequestedFields & { name: string } {
  const fields = { name, ...eachText(text => texts[text]), allowedCidrs: splitList(allowedCidrs), plan }
  return fields satisfies Readonly<Record<ChosenField, unknown>>
}

export function nameInput({ name }: ChosenForm, problems: Problems, hint: string): Html {
  const field = { name: 'name', label: 'Name', hint, problems }
  return textInput(field, name, html`type="text" maxlength="${MAX_NAME_LENGTH * 2}" required`)
}

export function textInputs(form: ChosenForm, problems: Problems): Html {
  const inputs = TEXT_NAMES.map(name => {
    const { label, hint, maxLength } = KEY_TEXTS[name]
    return textInput(
      { name, label, hint, problems },
      form[name],
      html`type="text" maxlength="${maxLength * 2}"`,
    )
  })
  return html`${inputs}`
}

/**
 * Where requests with a key may come from, and which rate limits hold for them.
 * @param knownPlans null where the person chooses no plan
 */
export function restrictionInputs(
  { allowedCidrs, plan }: ChosenForm,
  problems: Problems,
  knownPlans: readonly string[] | null,
): Html {
  const hint = html`IP addresses or networks, one per line, such as <code>192.0.2.0/24</code>. Gateways reject requests from other addresses. Leave it empty to allow every address`
  const label = RESTRICTION_LABELS.allowedCidrs
  const inputs: Readonly<Record<Restriction, Piece>> = {
    allowedCidrs: textArea({ name: 'allowedCidrs', label, hint, problems }, allowedCidrs),
    plan: planInput(plan, problems, knownPlans),
  }
  return html`${Object.values(inputs)}`
}

/** @returns null where there is nothing to choose. A plan that is no longer configured stays until another one is chosen */
export function planInput(
  plan: string,
  problems: Problems,
  knownPlans: readonly string[] | null,
): Html | null {
  if (knownPlans === null || (knownPlans.length === 0 && plan === '')) return null
  const gone = plan === '' || knownPlans.includes(plan) ? [] : [plan]
  const options = [
    { value: '', label: 'None' },
    ...knownPlans.map(name => ({ value: name, label: name })),
    ...gone.map(name => ({ value: name, label: `${name} (no longer configured)` })),
  ]
  const hint = 'Whose rate limits hold for the key'
  const label = RESTRICTION_LABELS.plan
  return select({ name: 'plan', label, value: plan, options, hint, problems })
}

const RESTRICTION_LABELS: Readonly<Record<Restriction, string>> = {
  allowedCidrs: 'Allowed addresses',
  plan: 'Plan',
}
// `Object.keys` forgets the type of a closed record's keys.
const RESTRICTIONS = Object.keys(RESTRICTION_LABELS) as readonly Restriction[]

/** Only those that a key has. */
function textFacts(texts: ChosenFields): Html {
  const facts = TEXT_NAMES.map(name => {
    const text = texts[name]
    return text === null ? null : fact(KEY_TEXTS[name].label, markInvisible(text))
  })
  return html`${facts}`
}

/** Only those that a key has. */
function restrictionFacts({ allowedCidrs, plan }: ChosenFields): Html {
  const texts: Readonly<Record<Restriction, string>> = {
    allowedCidrs: allowedCidrs.join(', '),
    plan: plan ?? '',
  }
  const facts = RESTRICTIONS.map(field =>
    texts[field] === '' ? null : fact(RESTRICTION_LABELS[field], texts[field]),
  )
  return html`${facts}`
}

/** @param creator name of the person who issued it; null if none is known */
export function facts(key: KeyView, nowMs: number, creator: string | null): Html {
  const { record } = key
  return html`<dl class="facts">
    ${textFacts(record)}
    ${fact('Hint', hintHtml(record))}
    ${fact('State', stateBadge(key))}
    ${fact('Scopes', scopeList(record))}
    ${restrictionFacts(record)}
    ${fact('Created', html`${instantAndAgo(record.createdAtMs, nowMs)} by ${actorName(record.createdBy, creator)}`)}
    ${fact(key.state === 'expired' ? 'Expired' : 'Expires', instantAndAgo(record.expiresAtMs, nowMs))}
    ${record.suspendedAtMs === null ? null : fact('Suspended', instantAndAgo(record.suspendedAtMs, nowMs))}
    ${record.revokedAtMs === null ? null : fact('Revoked', instantAndAgo(record.revokedAtMs, nowMs))}
    ${fact('Last used', lastUsed(key, nowMs))}
    ${fact('Key id', copyable('key-id', record.id))}
  </dl>`
}

/** As the audit log names the fields that an edit changed. */
export const FIELD_LABELS: Readonly<Record<string, string>> = {
  name: 'Name',
  ...eachText(text => KEY_TEXTS[text].label),
  ...RESTRICTION_LABELS,
} satisfies Record<ChosenField, string>

/** As the audit log holds it. */
export function valueText(value: AuditValue): Piece {
  if (value === null || value === '') return 'empty'
  if (typeof value === 'string' || typeof value === 'number') return html`“${markInvisible(String(value))}”`
  return value.length === 0 ? 'every address' : value.join(', ')
}

export function keyExpiryField(label: string, choice: ExpiryChoice, problems: Problems, nowMs: number): Html {
  const hint = 'You can rotate a key at any time before it expires'
  return expiryField({ label, hint, problems }, choice, nowMs)
}
