import type { Metrics } from '../../../observability/metrics/metrics.ts'
import { AuditWriteError, OutcomeUnknown } from '../../platform/database/database-unavailable.ts'
import type { OperationRejection, OperationSuccess } from './run-operation.ts'

const OPERATIONS = [
  'issue',
  'rotate',
  'revoke',
  'suspend',
  'resume',
  'edit',
  'revoke_all',
  'import',
  'leak',
] as const
const OUTCOMES = ['ok', 'unchanged', 'replayed', 'invalid', 'not_found', 'conflict', 'failed'] as const
type Outcome = (typeof OUTCOMES)[number]

/** What an operation says of its end. */
type Counted =
  | OperationSuccess
  | OperationRejection
  | { readonly kind: 'bulk_done'; readonly revoked: number }
  | { readonly kind: 'import_done'; readonly imported: number }

export type OperationCounter = ReturnType<typeof createOperationCounter>

/** Counts operations on keys by outcome, from zero so that an alert on a rate fires on the first failure. */
export function createOperationCounter({ keyOperations, auditWriteFailures }: Metrics) {
  for (const operation of OPERATIONS) {
    for (const outcome of OUTCOMES) keyOperations.inc({ operation, outcome }, 0)
  }
  return async <Result extends Counted>(
    operation: (typeof OPERATIONS)[number],
    run: () => Promise<Result>,
  ): Promise<Result> => {
    try {
      const result = await run()
      keyOperations.inc({ operation, outcome: outcomeOf(result) })
      return result
    } catch (error) {
      keyOperations.inc({ operation, outcome: 'failed' })
      const failure = error instanceof OutcomeUnknown ? error.cause : error
      if (failure instanceof AuditWriteError) auditWriteFailures.inc()
      throw error
    }
  }
}

function outcomeOf(result: Counted): Outcome {
  switch (result.kind) {
    case 'import_done':
      return result.imported > 0 ? 'ok' : 'unchanged'
    case 'bulk_done':
      return result.revoked > 0 ? 'ok' : 'unchanged'
    case 'done':
      if (result.replayed) return 'replayed'
      return result.changed ? 'ok' : 'unchanged'
    case 'invalid':
      return 'invalid'
    case 'unknown_key':
      return 'not_found'
    case 'not_active':
    case 'final':
    case 'other_version':
    case 'other_request':
      return 'conflict'
  }
}
