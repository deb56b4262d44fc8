import type { Permit } from '../../domain/authorize.ts'
import { type Denial, denied } from '../../domain/denial.ts'
import { holdsStrayKey, isAuthorization, strayKeysOf } from '../../domain/key/stray-keys.ts'
import { namesOriginal, type ProxyKind } from './read-original.ts'

const CHANGED_TARGET = denied('invalid_query', {
  detail: 'Leave out the "?" if there are no query parameters',
})
const KEY_IN_HEADER = denied('invalid_query', { detail: 'Send the API key in the Authorization header only' })
const FORGED_IDENTITY = denied('invalid_query', {
  detail: 'Send no headers whose names begin with X-Postern',
})

/** Servers that read `_` and `.` as `-` would take such a field for one of the gateway's own. */
const OTHER_SPELLING = /^x[-_.]postern[-_.]/

/**
 * The last check of a permitted request. The gateway would rebuild its target and headers. A proxy forwards what the
 * client sent, so it must equal what the gateway would forward, without a key outside of `Authorization`.
 */
export function denyUnforwardable(
  { proxy, prefix }: { readonly proxy: ProxyKind; readonly prefix: string | null },
  rawHeaders: readonly string[],
  permit: Permit,
  target: string,
): Denial | null {
  if (target !== permit.upstreamTarget) return CHANGED_TARGET
  const keys = strayKeysOf(rawHeaders, prefix)
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = rawHeaders[at]?.toLowerCase() ?? ''
    if (isAuthorization(name) || namesOriginal(proxy, name)) continue
    if (holdsStrayKey(name, keys) || holdsStrayKey(rawHeaders[at + 1] ?? '', keys)) return KEY_IN_HEADER
    if (OTHER_SPELLING.test(name) && /[_.]/.test(name)) return FORGED_IDENTITY
  }
  return null
}
