import type { Config } from '../config/schema/schema.ts'
import { compileProxies, isTrustedProxy } from '../http/client-address.ts'
import type { FailureLog } from './failure-log.ts'
import type { Tracing, TrustsParent } from './tracing.ts'

/** Loads the OpenTelemetry SDK only if `tracing.endpoint` is set. @returns null without an endpoint */
export async function createTracing(
  config: Pick<Config, 'gateway' | 'tracing' | 'outgoing'>,
  parts: { readonly version: string; readonly failures: FailureLog },
): Promise<Tracing | null> {
  const { endpoint, sampleRatio } = config.tracing
  if (endpoint === undefined) return null
  const { OpenTelemetryTracing } = await import('./open-telemetry.ts')
  return new OpenTelemetryTracing({
    endpoint,
    sampleRatio,
    proxies: config.outgoing,
    trustsParent: parentTrust(config),
    ...parts,
  })
}

/** @returns a function that tells whether the `traceparent` of a request decides if its trace is recorded */
export function parentTrust({ gateway, tracing }: Pick<Config, 'gateway' | 'tracing'>): TrustsParent {
  if (tracing.trustParent !== 'trusted-proxies') return () => tracing.trustParent === 'always'
  const trusted = compileProxies(gateway.trustedProxies)
  return ({ socket }) => isTrustedProxy(trusted, socket.remoteAddress ?? '')
}
