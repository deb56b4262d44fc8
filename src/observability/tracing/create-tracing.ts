import type { Config } from '../../config/schema/schema.ts'
import type { FailureLog } from '../failure-log.ts'
import type { Tracing, TrustsParent } from './tracing.ts'

/** Loads the OpenTelemetry SDK only if `tracing.endpoint` is set. @returns null without an endpoint */
export async function createTracing(
  { tracing, outgoing }: Pick<Config, 'tracing' | 'outgoing'>,
  parts: { readonly version: string; readonly trustsParent: TrustsParent; readonly failures: FailureLog },
): Promise<Tracing | null> {
  const { endpoint, sampleRatio } = tracing
  if (endpoint === undefined) return null
  const { OpenTelemetryTracing } = await import('./open-telemetry.ts')
  return new OpenTelemetryTracing({ endpoint, sampleRatio, proxies: outgoing, ...parts })
}
