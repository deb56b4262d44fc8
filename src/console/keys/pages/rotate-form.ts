import { DEFAULT_OVERLAP_SECONDS, type RotateRequest } from '../../../domain/key/rotate-key.ts'
import { type FormFields, type Problems, textField } from '../../platform/html/form-fields.ts'
import { DEFAULT_EXPIRY, decideExpiry, type ExpiryChoice, readExpiryChoice } from './expiry-choice.ts'

/** How long the old key keeps working. */
export const OVERLAPS: readonly {
  readonly seconds: number
  readonly label: string
  readonly hint: string
}[] = [
  {
    seconds: 0,
    label: 'No overlap: revoke it now',
    hint: 'For a leaked key. All gateways reject it within one second',
  },
  { seconds: 3600, label: '1 hour', hint: 'If you replace it everywhere at once' },
  { seconds: 86_400, label: '24 hours', hint: 'Enough for a deployment and daily jobs' },
  { seconds: 7 * 86_400, label: '7 days', hint: 'If other teams have to replace it too' },
  { seconds: 30 * 86_400, label: '30 days', hint: 'The maximum' },
]

export interface RotateForm extends ExpiryChoice {
  readonly overlap: string
}

export const NEW_ROTATE_FORM: RotateForm = { overlap: String(DEFAULT_OVERLAP_SECONDS), ...DEFAULT_EXPIRY }

export function readRotateForm(fields: FormFields): RotateForm {
  return { overlap: textField(fields, 'overlap'), ...readExpiryChoice(fields) }
}

export type RotateFormResult =
  | { readonly ok: true; readonly request: RotateRequest }
  | { readonly ok: false; readonly problems: Problems }

/** Reports all problems at once. The registry validates again. */
export function checkRotateForm(form: RotateForm, nowMs: number): RotateFormResult {
  const overlap = OVERLAPS.find(({ seconds }) => String(seconds) === form.overlap)
  const expiry = decideExpiry(form, nowMs)
  if (overlap !== undefined && expiry.ok) {
    return { ok: true, request: { overlapSeconds: overlap.seconds, ...expiry.expiry } }
  }
  const problems = new Map<string, string>()
  if (overlap === undefined) problems.set('overlap', 'Choose how long the old key keeps working')
  if (!expiry.ok) for (const [field, text] of expiry.problems) problems.set(field, text)
  return { ok: false, problems }
}
