import type { Clock } from '../../domain/clock.ts'
import type { ControlLogger } from '../../observability/control-logger.ts'
import type { Metrics } from '../../observability/metrics/metrics.ts'
import { type ChainHead, isInChain, readHead, signAgain } from '../platform/audit/chain.ts'
import type { AuditedDatabase } from '../platform/audit/mac.ts'
import { createAuditQueue } from '../platform/audit/queue.ts'
import { createChangeWriter } from '../platform/database/change-writer.ts'
import { keepUp, type Timers } from '../platform/jobs/timers.ts'

/** For what a console that died has left. */
const CHAIN_PERIOD_MS = 5000
const SIGN_AGAIN_PERIOD_MS = 60_000
const NOTE_HEAD_PERIOD_MS = 3_600_000

interface UpkeepParts {
  readonly database: AuditedDatabase
  readonly metrics: Pick<Metrics, 'auditHeadsLost'>
  readonly clock: Clock
  readonly timers: Timers
  readonly logger: ControlLogger
}

/**
 * Adds entries to the chain that another console has left, signs again those of an earlier signing secret, and notes the head.
 * @returns ends it
 */
export function startUpkeep(parts: UpkeepParts): () => void {
  const { database, clock } = parts
  const writer = createChangeWriter(database)
  const target = { ...database, now: () => clock.wallMs() }
  const queue = createAuditQueue(writer, target)
  const ends = [
    keepUp(parts, { everyMs: CHAIN_PERIOD_MS, work: () => queue.chainLeft(), isDueNow: true }),
    keepUp(parts, { everyMs: SIGN_AGAIN_PERIOD_MS, work: () => signAgain(writer, target) }),
    keepUp(parts, { everyMs: NOTE_HEAD_PERIOD_MS, work: createHeadNotes(parts), isDueNow: true }),
  ]
  return () => {
    for (const end of ends) end()
  }
}

/** A head in the log, which is kept elsewhere, shows later what was cut off or written anew: `audit verify --head`. */
function createHeadNotes({ database, metrics, logger }: UpkeepParts): () => Promise<void> {
  const { reader, audit } = database
  let noted: ChainHead | null = null
  return async () => {
    const earlier = noted
    if (earlier !== null && !(await isInChain(reader, earlier, audit))) {
      metrics.auditHeadsLost.inc()
      logger.error({ ...earlier }, 'audit entries removed or changed: an earlier head is not in the chain')
    }
    noted = await readHead(reader)
    logger.info({ sequence: noted.sequence, hash: noted.hash }, 'audit head')
  }
}
