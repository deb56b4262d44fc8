import { isIP } from 'node:net'
import { withoutBrackets } from '../../../domain/address/host-name.ts'
import { type Planned, wrong } from '../../../domain/key/key-fields.ts'
import { holdsKeyForm } from '../../../domain/key/secret.ts'

export const MAX_URL_LENGTH = 2_048
const VISIBLE_ASCII = /^[\x21-\x7e]+$/
const LOWEST_OTHER_PORT = 1_024
export const URL_EXPECTED = `an https: address of at most ${MAX_URL_LENGTH} characters, without user or fragment, on port 443 or one from ${LOWEST_OTHER_PORT}`
const ADDRESS_EXPECTED = 'an address that this console may send to: public, or allowed by its operator'

export interface UrlRules {
  /** What keys begin with: no address may hold a key. */
  readonly keyPrefix: string
  readonly allowHttp: boolean
  readonly mayConnectTo: (address: string) => boolean
}

/** The receiver's address in its one form. A name is checked whenever a connection is made. */
export function planWebhookUrl(
  text: string,
  { keyPrefix, allowHttp, mayConnectTo }: UrlRules,
): Planned<string> {
  const url = text.length <= MAX_URL_LENGTH && VISIBLE_ASCII.test(text) ? URL.parse(text) : null
  const protocols = allowHttp ? ['https:', 'http:'] : ['https:']
  if (url === null || !protocols.includes(url.protocol) || url.hostname === '')
    return wrong('url', URL_EXPECTED)
  const hasCredentials = url.username !== '' || url.password !== ''
  if (hasCredentials || text.includes('#') || !isAllowedPort(url.port)) return wrong('url', URL_EXPECTED)
  if (holdsKeyForm(text, keyPrefix)) return wrong('url', 'an address without an API key in it')
  // The parser has turned forms such as 0x7f.1 into addresses.
  const host = withoutBrackets(url.hostname)
  if (isIP(host) !== 0 && !mayConnectTo(host)) return wrong('url', ADDRESS_EXPECTED)
  return { ok: true, value: url.href }
}

/** @param port empty for that of the protocol. Lower ports belong to services of other protocols */
function isAllowedPort(port: string): boolean {
  return port === '' || Number(port) >= LOWEST_OTHER_PORT
}
