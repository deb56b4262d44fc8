import { awaitConfirmations, type Confirmations, confirmationsOf } from '../announcing/confirmations.ts'
import { CONFIRMATIONS_KEPT_MS } from '../database/gateway-rows.ts'
import type { Registry } from '../registry.ts'
import type { Done } from './operation.ts'

/** How far a revocation has come. */
export interface Revocation {
  readonly announced: boolean
  /** Null where no key was revoked: it had expired before, or was rotated and works until its overlap ends. */
  readonly committedAtMs: number | null
  /** When it was announced; null also where this request did not do it. */
  readonly announcedAtMs: number | null
  /** Null also for a revocation so long ago that nobody keeps it in mind. */
  readonly gateways: Confirmations | null
}

/**
 * @param done a revocation; or a rotation, of whose old key it is then said
 * @param isToWait whether to wait, for a second at most, until every gateway has confirmed and at least one is known
 */
export async function followRevocation(
  registry: Registry,
  done: Done,
  isToWait: boolean,
): Promise<Revocation> {
  const { announced, announcedAtMs } = done
  const { record, digest } = done.replaced ?? done
  const { version, revokedAtMs } = record
  if (revokedAtMs === null) return { announced, committedAtMs: null, announcedAtMs: null, gateways: null }
  const committedAtMs = done.committedAtMs ?? revokedAtMs
  const change = { digest, version, committedAtMs }
  const isKnown = registry.clock.wallMs() - committedAtMs <= CONFIRMATIONS_KEPT_MS
  const ask = () =>
    isToWait ? awaitConfirmations(registry, change, announced) : confirmationsOf(registry, change)
  return { announced, committedAtMs, announcedAtMs, gateways: isKnown ? await ask() : null }
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

function answeredGateways({ known, confirmed, verifying, silent }: Confirmations) {
  const named = silent.map(({ name, lastSeenAtMs }) => ({ name, lastSeenAt: instant(lastSeenAtMs) }))
  return { known, confirmed, verifying, silent: named }
}

function instant(ms: number | null): string | null {
  return ms === null ? null : new Date(ms).toISOString()
}
