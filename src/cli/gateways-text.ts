import type { ShownGateways } from './admin-answers.ts'
import { plainText } from './plain-text.ts'

export const UNANNOUNCED =
  'The gateways could not be told yet: the console goes on trying, and each refuses the key as soon as it asks again'
const NONE_KNOWN =
  'No gateway is known: none has reported to the console within the last minute, so none can confirm it.'

/** A sentence on which gateways refuse a key that was revoked, and how that is known. */
export function gatewaysText({ known, confirmed, verifying, silent }: ShownGateways): string {
  if (known === 0) return NONE_KNOWN
  const parts = [`${confirmed} of ${known} ${known === 1 ? 'gateway has' : 'gateways have'} confirmed it`]
  if (verifying > 0) {
    const checks = verifying === 1 ? 'is disconnected and checks' : 'are disconnected and check'
    parts.push(`${verifying} ${checks} each key with the console before accepting it`)
  }
  if (silent.length > 0) {
    const names = silent.map(({ name }) => plainText(name)).join(', ')
    parts.push(`no answer within a second from ${names}`)
  }
  return `${parts.join('; ')}.`
}
