import { isCount } from '../../domain/wire.ts'

/** What the key service says to a report. Each field is optional: other key services may leave it out. */
export interface ReportResponse {
  /** Fingerprints of its signing secrets; the first signs. Empty if it does not say. */
  readonly fingerprints: readonly string[]
  /** Number of gateways that reported within the last minute; null if it does not say. */
  readonly gateways: number | null
  /** Its wall clock, in milliseconds since the epoch; null if it does not say. */
  readonly atMs: number | null
  /** Names of its regions. Empty if it does not say. */
  readonly regions: readonly string[]
}

const NOTHING: ReportResponse = { fingerprints: [], gateways: null, atMs: null, regions: [] }

/** @param text the body, which may be missing or that of another server */
export function readReportResponse(text: string): ReportResponse {
  try {
    // Any value but null has fields, if not these.
    const body = JSON.parse(text) as Record<string, unknown>
    const { signingSecrets, gateways, at, regions } = body
    return {
      fingerprints: textsIn(signingSecrets),
      gateways: typeof gateways === 'number' ? gateways : null,
      atMs: isCount(at) ? at : null,
      regions: textsIn(regions),
    }
  } catch {
    return NOTHING
  }
}

function textsIn(list: unknown): string[] {
  return Array.isArray(list) ? list.filter(text => typeof text === 'string') : []
}
