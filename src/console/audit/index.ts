import type { Metrics } from '../../observability/metrics/metrics.ts'
import { type ChainHead, createAuditQueue, isInChain, readHead, signAgain } from '../platform/audit/chain.ts'
import type { AuditedDatabase } from '../platform/audit/mac.ts'
import type { Capability, ConsoleContext } from '../platform/capability.ts'
import { bindCalls } from '../platform/http/calls.ts'
import { keepUp } from '../platform/jobs/timers.ts'
import { AUDIT_CALLS } from './api.ts'
import { type AuditPageParts, auditRoutes } from './pages.ts'

export { AUDIT_CALLS } from './api.ts'
export { type ChainReport, NoAuditChain, verifyAudit } from './verify.ts'

/** For what a console that died has left. */
const CHAIN_PERIOD_MS = 5000
const SIGN_AGAIN_PERIOD_MS = 60_000
const NOTE_HEAD_PERIOD_MS = 3_600_000

interface OpenKeys {
  readonly database: AuditedDatabase
  readonly stored: AuditPageParts['keys']
}

/** Reading who did what to which key, and keeping the chain up. `platform/audit` writes it. */
export function createAudit(context: ConsoleContext, { database, stored: keys }: OpenKeys): Capability {
  const { clock } = context
  let endUpkeep = () => {}
  return {
    calls: bindCalls(AUDIT_CALLS, database),
    registerPages: scope => auditRoutes(scope, { database, keys, clock }),
    start() {
      endUpkeep = startUpkeep({ ...context, database })
    },
    async stop() {
      endUpkeep()
    },
  }
}

interface UpkeepParts extends Pick<ConsoleContext, 'clock' | 'timers' | 'logger'> {
  readonly database: AuditedDatabase
  readonly metrics: Pick<Metrics, 'auditHeadsLost'>
}

/**
 * Adds entries to the chain that another console has left, signs again those of an earlier signing secret, and notes the head.
 * @returns ends it
 */
export function startUpkeep(parts: UpkeepParts): () => void {
  const { database, clock } = parts
  const target = { ...database, now: () => clock.wallMs() }
  const queue = createAuditQueue(target)
  const ends = [
    keepUp(parts, { everyMs: CHAIN_PERIOD_MS, work: () => queue.chainLeft(), isDueNow: true }),
    keepUp(parts, { everyMs: SIGN_AGAIN_PERIOD_MS, work: () => signAgain(target) }),
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
    if (noted === null) throw new Error('The audit chain has no head')
    logger.info({ sequence: noted.sequence, hash: noted.hash }, 'audit head')
  }
}
