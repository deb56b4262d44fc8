import type { Problems } from '../../platform/html/form-fields.ts'
import { group, option, textInput } from '../../platform/html/form-parts.ts'
import { type Html, html } from '../../platform/html/html.ts'
import { dateText } from '../../platform/html/times.ts'
import { dateBounds, EXPIRY_DAYS, type ExpiryChoice } from './expiry-choice.ts'

const DAY_MS = 86_400_000

/** The expiry fields shared by issuing and rotating. */
export function expiryField(label: string, choice: ExpiryChoice, problems: Problems, nowMs: number): Html {
  const days = EXPIRY_DAYS.map(count =>
    option({
      type: 'radio',
      name: 'expiry',
      value: String(count),
      checked: choice.expiry === String(count),
      label: `In ${count} days`,
      hint: dateText(nowMs + count * DAY_MS),
    }),
  )
  const onDate = option({
    type: 'radio',
    name: 'expiry',
    value: 'date',
    checked: choice.expiry === 'date',
    label: 'On a date',
  })
  const { min, max } = dateBounds(nowMs)
  const hint = 'The key expires at the end of this day, UTC'
  const date = textInput(
    { name: 'date', label: 'Last day', hint, problems },
    choice.date,
    html`type="date" min="${min}" max="${max}" data-chooses="expiry-date"`,
  )
  return group(
    {
      name: 'expiry',
      label,
      hint: 'You can rotate a key at any time before it expires',
      problems,
    },
    html`<div class="options row">${days}</div>${onDate}<div class="inset">${date}</div>`,
  )
}
