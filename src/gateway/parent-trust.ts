import type { Config } from '../config/schema/schema.ts'
import { compileProxies, isTrustedProxy } from '../http/trusted-proxies.ts'
import type { TrustsParent } from '../observability/tracing/tracing.ts'

/** @returns a function that tells whether the `traceparent` of a request decides if its trace is recorded */
export function parentTrustOf({ gateway, tracing }: Pick<Config, 'gateway' | 'tracing'>): TrustsParent {
  if (tracing.trustParent !== 'trusted-proxies') return () => tracing.trustParent === 'always'
  const trusted = compileProxies(gateway.trustedProxies)
  return ({ socket }) => isTrustedProxy(trusted, socket.remoteAddress ?? '')
}
