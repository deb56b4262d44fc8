import type { Metrics } from '../../../observability/metrics.ts'
import { AuditWriteError } from '../database/audit-rows.ts'
import type { Done, Refusal } from './operation.ts'

const OPERATIONS = ['issue', 'rotate', 'revoke'] as const
const OUTCOMES = ['ok', 'unchanged', 'replayed', 'invalid', 'not_found', 'conflict', 'failed'] as const
type Outcome = (typeof OUTCOMES)[number]

/** Counts what becomes of each operation on a key. All start at zero, so that a first failure is a rise. */
export function createOperationCount({ keyOperations, auditWriteFailures }: Metrics) {
  for (const operation of OPERATIONS) {
    for (const outcome of OUTCOMES) keyOperations.inc({ operation, outcome }, 0)
  }
  return async (
    operation: (typeof OPERATIONS)[number],
    run: () => Promise<Done | Refusal>,
  ): Promise<Done | Refusal> => {
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

function outcomeOf(result: Done | Refusal): Outcome {
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
