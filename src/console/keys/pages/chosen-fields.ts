import {
  BLANK_FIELDS,
  type ChosenField,
  type ChosenFields,
  isKeyName,
  MAX_NAME_LENGTH,
  type RequestedFields,
} from '../../../domain/key/key-fields.ts'
import { eachText, KEY_TEXTS, TEXT_NAMES } from '../../../domain/key/key-texts.ts'
import { hasVisible } from '../../../domain/visible-text.ts'
import type { AuditValue } from '../../platform/audit/entries.ts'
import {
  type FormFields,
  type Problems,
  readLines,
  textArea,
  textField,
  textInput,
} from '../../platform/html/form-parts.ts'
import { type Html, html, markInvisible, type Piece } from '../../platform/html/html.ts'

/** The fields of a key that people choose, as forms have them. */
export type ChosenForm = Readonly<Record<ChosenField, string>>

export const BLANK_FORM = chosenFormOf(BLANK_FIELDS)

export function chosenFormOf({ name, allowedCidrs, ...texts }: ChosenFields): ChosenForm {
  return { name, ...eachText(text => texts[text] ?? ''), allowedCidrs: allowedCidrs.join('\n') }
}

export function readChosenForm(fields: FormFields): ChosenForm {
  return {
    name: textField(fields, 'name').trim(),
    ...eachText(text => textField(fields, text).trim()),
    allowedCidrs: readLines(fields, 'allowedCidrs'),
  }
}

/** The registry checks them. */
export function requestedFields({
  name,
  allowedCidrs,
  ...texts
}: ChosenForm): RequestedFields & { name: string } {
  return { name, ...eachText(text => texts[text]), allowedCidrs: splitCidrs(allowedCidrs) }
}

/** @param text networks, separated by line breaks, spaces or commas */
function splitCidrs(text: string): string[] {
  return text.split(/[\s,]+/).filter(cidr => cidr !== '')
}

export function problemOfName(name: string): string | null {
  if (name === '') return 'Enter a name, such as “build server”'
  const length = [...name].length
  if (length > MAX_NAME_LENGTH) return `Shorten the name to ${MAX_NAME_LENGTH} characters; it has ${length}`
  if (!hasVisible(name)) return 'Enter a name with characters that are visible, such as “build server”'
  return isKeyName(name) ? null : 'Remove line breaks, tabs and other control characters from the name'
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

/** Where requests with a key may come from. */
export function restrictionInputs({ allowedCidrs }: ChosenForm, problems: Problems): Html {
  const hint = html`IP addresses or networks, one per line, such as <code>192.0.2.0/24</code>. Gateways reject requests from other addresses. Leave it empty to allow every address`
  return textArea({ name: 'allowedCidrs', label: ALLOWED_ADDRESSES, hint, problems }, allowedCidrs)
}

const ALLOWED_ADDRESSES = 'Allowed addresses'

/** Only those that a key has. */
export function textFacts(texts: ChosenFields): Html {
  const facts = TEXT_NAMES.map(name => {
    const text = texts[name]
    return text === null
      ? null
      : html`<div><dt>${KEY_TEXTS[name].label}</dt><dd>${markInvisible(text)}</dd></div>`
  })
  return html`${facts}`
}

export function restrictionFacts({ allowedCidrs }: ChosenFields): Html | null {
  if (allowedCidrs.length === 0) return null
  return html`<div><dt>${ALLOWED_ADDRESSES}</dt><dd>${allowedCidrs.join(', ')}</dd></div>`
}

/** As the audit log names the fields that an edit changed. */
export const FIELD_LABELS: Readonly<Record<string, string>> = {
  name: 'Name',
  ...eachText(text => KEY_TEXTS[text].label),
  allowedCidrs: ALLOWED_ADDRESSES,
} satisfies Record<ChosenField, string>

/** As the audit log holds it. */
export function valueText(value: AuditValue): Piece {
  if (value === null || value === '') return 'empty'
  if (typeof value === 'string' || typeof value === 'number') return html`“${markInvisible(String(value))}”`
  return value.length === 0 ? 'every address' : value.join(', ')
}
