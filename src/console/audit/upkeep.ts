import type { ControlLogger } from '../../observability/control-logger.ts'
import type { Metrics } from '../../observability/metrics/metrics.ts'
import type { ChainHead } from '../platform/audit/chain.ts'
import { keepUp, type Timers } from '../platform/jobs/timers.ts'

/** For what a console that died has left. */
const CHAIN_PERIOD_MS = 5000
const SIGN_AGAIN_PERIOD_MS = 60_000
const NOTE_HEAD_PERIOD_MS = 3_600_000

export interface UpkeepParts {
  readonly repository: {
    chainAudit(): Promise<void>
    signAuditAgain(): Promise<void>
    auditHead(): Promise<ChainHead>
    isInAudit(head: ChainHead): Promise<boolean>
  }
  readonly metrics: Pick<Metrics, 'auditHeadsLost'>
  readonly timers: Timers
  readonly logger: ControlLogger
}

/**
 * Adds entries to the chain that another console has left, signs again those of an earlier signing secret, and notes the head.
 * @returns ends it
 */
export function startUpkeep(parts: UpkeepParts): () => void {
  const { repository } = parts
  const ends = [
    keepUp(parts, { everyMs: CHAIN_PERIOD_MS, work: () => repository.chainAudit(), isDueNow: true }),
    keepUp(parts, { everyMs: SIGN_AGAIN_PERIOD_MS, work: () => repository.signAuditAgain() }),
    keepUp(parts, { everyMs: NOTE_HEAD_PERIOD_MS, work: createHeadNotes(parts), isDueNow: true }),
  ]
  return () => {
    for (const end of ends) end()
  }
}

/** A head in the log, which is kept elsewhere, shows later what was cut off or written anew: `audit verify --head`. */
function createHeadNotes({ repository, metrics, logger }: UpkeepParts): () => Promise<void> {
  let noted: ChainHead | null = null
  return async () => {
    const earlier = noted
    if (earlier !== null && !(await repository.isInAudit(earlier))) {
      metrics.auditHeadsLost.inc()
      logger.error({ ...earlier }, 'audit entries removed or changed: an earlier head is not in the chain')
    }
    noted = await repository.auditHead()
    logger.info({ sequence: noted.sequence, hash: noted.hash }, 'audit head')
  }
}
