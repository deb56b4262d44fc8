import type { Metrics } from '../../observability/metrics.ts'
import { ApiError } from '../http/api-error.ts'

const OPERATIONS = ['issue', 'revoke'] as const
const OUTCOMES = ['ok', 'unchanged', 'refused', 'failed'] as const
type Outcome = (typeof OUTCOMES)[number]

/** Counts what becomes of each operation on a key. All start at zero, so that a first failure is a rise. */
export function createOperationCount({ keyOperations }: Metrics) {
  for (const operation of OPERATIONS) {
    for (const outcome of OUTCOMES) keyOperations.inc({ operation, outcome }, 0)
  }
  return <Result>(operation: (typeof OPERATIONS)[number], outcomeOf: (result: Result) => Outcome) =>
    async <Actual extends Result>(run: () => Promise<Actual>): Promise<Actual> => {
      try {
        const result = await run()
        keyOperations.inc({ operation, outcome: outcomeOf(result) })
        return result
      } catch (error) {
        keyOperations.inc({ operation, outcome: error instanceof ApiError ? 'refused' : 'failed' })
        throw error
      }
    }
}
