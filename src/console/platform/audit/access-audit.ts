import type { FastifyInstance, FastifyRequest } from 'fastify'
import { RateLimiterMemory } from 'rate-limiter-flexible'
import type { Clock } from '../../../domain/clock.ts'
import { type ControlLogger, describeError } from '../../../observability/control-logger.ts'
import type { Metrics } from '../../../observability/metrics/metrics.ts'
import { secondsToWait } from '../http/authenticate-programs.ts'
import { describeCaller } from '../http/request-context.ts'
import { appendAudit, runAudited } from './chain.ts'
import { auditAccess } from './entries.ts'
import type { AuditedDatabase } from './mac.ts'

/** Entries of one actor: a caller that tries every workspace must not fill the audit log. The console log has each attempt. */
const PER_MINUTE = 10
const MINUTE_SECONDS = 60

interface AccessAuditParts {
  readonly database: AuditedDatabase
  readonly clock: Clock
  readonly newAuditId: (nowMs: number) => string
  readonly metrics: Pick<Metrics, 'auditWriteFailures'>
  readonly logger: ControlLogger
}

/** Audits attempts to reach a workspace that the caller may not access. */
export interface AccessAudit {
  watch(scope: FastifyInstance): void
  /** Waits for entries that are being written. */
  stop(): Promise<void>
}

export function createAccessAudit(parts: AccessAuditParts): AccessAudit {
  const limiter = new RateLimiterMemory({ points: PER_MINUTE, duration: MINUTE_SECONDS })
  const writing = new Set<Promise<void>>()
  return {
    watch(scope) {
      // After the response: its time must not tell a workspace that exists from one that does not.
      scope.addHook('onResponse', async request => {
        if (request.refusedWorkspace === null || request.principal === null) return
        const entry = record(parts, limiter, request, request.refusedWorkspace)
        writing.add(entry)
        await entry.finally(() => writing.delete(entry))
      })
    },
    async stop() {
      await Promise.all(writing)
    },
  }
}

async function record(
  parts: AccessAuditParts,
  limiter: RateLimiterMemory,
  request: FastifyRequest,
  workspaceId: string,
): Promise<void> {
  const { database, clock, newAuditId, logger } = parts
  const caller = describeCaller(request)
  const operation = request.routeOptions.config.operation ?? 'other'
  logger.warn({ requestId: request.id, actor: caller.actor, workspaceId, operation }, 'access refused')
  if ((await secondsToWait(limiter, caller.actor)) > 0) return
  const nowMs = clock.wallMs()
  const about = { workspaceId, operation, method: request.method }
  const entry = auditAccess('access.refused', about, { id: newAuditId(nowMs), atMs: nowMs, caller })
  try {
    await runAudited(parts, tx => appendAudit(tx, [entry], database))
  } catch (error) {
    logger.error({ requestId: request.id, cause: describeError(error) }, 'refused access not audited')
  }
}
