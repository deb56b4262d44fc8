import { awaitConfirmations, type Confirmations, confirmationsOf } from './confirmations.ts'
import { CONFIRMATIONS_KEPT_MS } from './gateway-rows.ts'
import type { Done } from './operation.ts'
import type { Registry } from './registry.ts'

/** How far a revocation has come. */
export interface Revocation {
  /** Null where the key was not revoked: it had expired before. */
  readonly committedAtMs: number | null
  readonly announced: boolean
  /** When that was; null where this request did not do it. */
  readonly announcedAtMs: number | null
  /** Null where nothing was revoked, or so long ago that nobody keeps it in mind. */
  readonly gateways: Confirmations | null
}

/** @param isToWait whether to wait, for a second at most, until every gateway has confirmed */
export async function followRevocation(
  registry: Registry,
  { record, digest, announced, announcedAtMs, ...done }: Done,
  isToWait: boolean,
): Promise<Revocation> {
  const committedAtMs = done.committedAtMs ?? record.revokedAtMs
  const gateways = await gatewaysOf(registry, { digest, version: record.version, committedAtMs }, isToWait)
  return { committedAtMs, announced, announcedAtMs, gateways }
}

async function gatewaysOf(
  registry: Registry,
  { committedAtMs, ...change }: { digest: string; version: number; committedAtMs: number | null },
  isToWait: boolean,
): Promise<Confirmations | null> {
  if (committedAtMs === null || registry.clock.wallMs() - committedAtMs > CONFIRMATIONS_KEPT_MS) return null
  return (isToWait ? awaitConfirmations : confirmationsOf)(registry, { ...change, committedAtMs })
}

/** As the admin API says it. */
export function answeredRevocation({ announced, committedAtMs, announcedAtMs, gateways }: Revocation) {
  return {
    announced,
    committedAt: instant(committedAtMs),
    announcedAt: instant(announcedAtMs),
    gateways: gateways === null ? null : answeredGateways(gateways),
  }
}

function answeredGateways({ confirmed, verifying, silent }: Confirmations) {
  const named = silent.map(({ name, lastSeenAtMs }) => ({ name, lastSeenAt: instant(lastSeenAtMs) }))
  return { confirmed, verifying, silent: named }
}

function instant(ms: number | null): string | null {
  return ms === null ? null : new Date(ms).toISOString()
}
