import type { ConsoleContext } from '../platform/console-context.ts'
import type { AuditTrust } from './audit-mac.ts'

const LOG_INTERVAL_MS = 60_000

type TrustContext = Pick<ConsoleContext, 'secrets' | 'metrics' | 'logger' | 'clock'>

/** Signs audit entries with the current signing secrets. Rejected entries are counted; the log names one a minute. */
export function createAuditTrust({ secrets, metrics, logger, clock }: TrustContext): AuditTrust {
  let loggedAtMs = Number.NEGATIVE_INFINITY
  return {
    get keys() {
      return secrets.value.auditKeys
    },
    onRejected({ id, place, reason, signedBy }) {
      metrics.auditRejections.inc()
      const nowMs = clock.monotonicMs()
      if (nowMs - loggedAtMs < LOG_INTERVAL_MS) return
      loggedAtMs = nowMs
      logger.error({ auditId: id, place, reason, signedBy }, 'audit entry rejected')
    },
  }
}
