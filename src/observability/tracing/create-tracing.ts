import type { Config } from '../../config/schema/schema.ts'
import type { Tracing, TrustsParent } from './tracing.ts'

/** Loads the OpenTelemetry SDK only if `tracing.endpoint` is set. @returns null without an endpoint */
export async function createTracing(
  config: Config['tracing'],
  version: string,
  trustsParent: TrustsParent,
): Promise<Tracing | null> {
  const { endpoint, sampleRatio } = config
  if (endpoint === undefined) return null
  const { OpenTelemetryTracing } = await import('./open-telemetry.ts')
  return new OpenTelemetryTracing({ endpoint, sampleRatio, version, trustsParent })
}
