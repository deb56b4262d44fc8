import type { Config } from '../../config/schema/schema.ts'
import type { OriginalRequest } from '../handle-request.ts'

export type ProxyKind = NonNullable<Config['gateway']['check']['proxy']>

/** Headers in which a proxy says what its client asked for, in lower case. Envoy repeats the request line instead. */
interface Place {
  readonly method: string
  readonly target: string
}

const X_FORWARDED: Place = { method: 'x-forwarded-method', target: 'x-forwarded-uri' }
const PLACES: Readonly<Record<ProxyKind, Place | null>> = {
  nginx: { method: 'x-original-method', target: 'x-original-uri' },
  caddy: X_FORWARDED,
  traefik: X_FORWARDED,
  haproxy: X_FORWARDED,
  envoy: null,
}

/**
 * Reads what the client asked for from the one place of this kind of proxy, so that no other header of a client can
 * steer the decision.
 * @param check.url own target of the check
 * @param pathPrefix what Envoy writes before the original target; '' for nothing
 * @returns null if there is no value, or more than one
 */
export function readOriginal(
  proxy: ProxyKind,
  check: { method: string; url: string; rawHeaders: readonly string[] },
  pathPrefix: string,
): OriginalRequest | null {
  const place = PLACES[proxy]
  if (place === null) {
    const { method, url } = check
    return url.startsWith(`${pathPrefix}/`) ? { method, target: url.slice(pathPrefix.length) } : null
  }
  const method = onlyValueOf(place.method, check.rawHeaders)
  const target = onlyValueOf(place.target, check.rawHeaders)
  return method === null || target === null ? null : { method, target }
}

/** Whether the kind of proxy names the client's request in this header. @param name in lower case */
export function namesOriginal(proxy: ProxyKind, name: string): boolean {
  const place = PLACES[proxy]
  return place !== null && (name === place.method || name === place.target)
}

function onlyValueOf(name: string, rawHeaders: readonly string[]): string | null {
  let found: string | null = null
  for (let at = 0; at < rawHeaders.length; at += 2) {
    if (rawHeaders[at]?.toLowerCase() !== name) continue
    if (found !== null) return null
    found = rawHeaders[at + 1] ?? ''
  }
  return found === '' ? null : found
}
