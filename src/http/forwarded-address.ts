import { isIP } from 'node:net'
import { plainAddress } from '../domain/address/plain-address.ts'

const PORT = /^:\d{1,5}$/
const IPV4_WITH_PORT = /^(\d{1,3}(?:\.\d{1,3}){3}):\d{1,5}$/

/**
 * One address of `X-Forwarded-For`, in the forms that proxies write: with a port (Azure, IIS, some load balancers of AWS),
 * an IPv6 address in brackets, with a zone.
 * @returns null for any other text, such as `unknown` or `_hidden`
 */
export function readForwardedAddress(text: string): string | null {
  const address = withoutZone(withoutPort(text.trim()))
  return isIP(address) === 0 ? null : plainAddress(address)
}

function withoutPort(text: string): string {
  if (!text.startsWith('[')) return IPV4_WITH_PORT.exec(text)?.[1] ?? text
  const end = text.indexOf(']')
  const rest = text.slice(end + 1)
  return end > 0 && (rest === '' || PORT.test(rest)) ? text.slice(1, end) : text
}

/** The zone of `fe80::1%eth0` is a name on the proxy's machine. */
function withoutZone(text: string): string {
  const percent = text.indexOf('%')
  return percent > 0 && isIP(text) === 6 ? text.slice(0, percent) : text
}
