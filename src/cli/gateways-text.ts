import type { ShownGateways } from './admin-answers.ts'
import { plainText } from './plain-text.ts'

export const UNANNOUNCED =
  'The gateways could not be told yet: the console goes on trying, and each refuses the key as soon as it asks again'

/** A sentence on who has heard of a revocation; empty where no gateway is known. */
export function gatewaysText({ confirmed, verifying, silent }: ShownGateways): string {
  const live = confirmed + verifying + silent.length
  if (live === 0) return ''
  const names = silent.map(({ name }) => plainText(name)).join(', ')
  const unheard = silent.length === 0 ? '' : `; nothing was heard within a second of ${names}`
  return `${confirmed + verifying} of ${live} gateways refuse it${unheard}.`
}
