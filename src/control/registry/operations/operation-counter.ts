import type { Metrics } from '../../../observability/metrics/metrics.ts'
import { AuditWriteError } from '../database/audit-chain.ts'
import type { OperationRefusal, OperationSuccess } from './run-operation.ts'

const OPERATIONS = ['issue', 'rotate', 'revoke'] as const
const OUTCOMES = ['ok', 'unchanged', 'replayed', 'invalid', 'not_found', 'conflict', 'failed'] as const
type Outcome = (typeof OUTCOMES)[number]

/** Counts operations on keys by outcome, from zero so that an alert on a rate fires on the first failure. */
export function createOperationCounter({ keyOperations, auditWriteFailures }: Metrics) {
  for (const operation of OPERATIONS) {
    for (const outcome of OUTCOMES) keyOperations.inc({ operation, outcome }, 0)
  }
  return async (
    operation: (typeof OPERATIONS)[number],
    run: () => Promise<OperationSuccess | OperationRefusal>,
  ): Promise<OperationSuccess | OperationRefusal> => {
    try {
      const result = await run()
      keyOperations.inc({ operation, outcome: outcomeOf(result) })
      return result
    } catch (error) {
      keyOperations.inc({ operation, outcome: 'failed' })
      if (error instanceof AuditWriteError) auditWriteFailures.inc()
      throw error
    }
  }
}

function outcomeOf(result: OperationSuccess | OperationRefusal): Outcome {
  switch (result.kind) {
    case 'done':
      if (result.replayed) return 'replayed'
      return result.changed ? 'ok' : 'unchanged'
    case 'invalid':
      return 'invalid'
    case 'unknown_key':
      return 'not_found'
    case 'not_active':
    case 'other_request':
      return 'conflict'
  }
}
