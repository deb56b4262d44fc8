import { shareBatches } from '../../platform/batch/share-runs.ts'
import type { GatewayReport, ReceivedReport } from './gateway-rows.ts'

/** Bounds a transaction to some ten milliseconds. */
const MAX_CONFIRMATIONS = 5_000
const MAX_GATEWAYS = 1_000

/**
 * Records the reports that arrive together in one transaction. After a change every gateway reports within the same
 * moment: a transaction each would take all connections from changes, and more time than gateways wait.
 */
export function shareReports(
  record: (reports: readonly ReceivedReport[]) => Promise<void>,
  now: () => number,
): (report: GatewayReport) => Promise<void> {
  const share = shareBatches(async (reports: readonly ReceivedReport[]) => {
    for (const batch of batchesOf(reports)) await record(batch)
  })
  return report => share([{ ...report, atMs: now() }])
}

/** Several reports of one gateway stay in their order, each in another batch. */
function batchesOf(reports: readonly ReceivedReport[]): ReceivedReport[][] {
  const batches: ReceivedReport[][] = []
  let batch: ReceivedReport[] = []
  let ids = new Set<string>()
  let confirmations = 0
  for (const report of reports) {
    confirmations += report.confirmed.length
    const isFull = batch.length === MAX_GATEWAYS || confirmations > MAX_CONFIRMATIONS
    if (batch.length === 0 || isFull || ids.has(report.id)) {
      batch = []
      ids = new Set()
      confirmations = report.confirmed.length
      batches.push(batch)
    }
    batch.push(report)
    ids.add(report.id)
  }
  return batches
}
