import { type ControlLogger, causeOf } from '../../../observability/control-logger.ts'
import { type Metrics, SCHEMA_DIFFERENCE_KINDS } from '../../../observability/metrics/metrics.ts'
import { compareSchema } from './compare-schema.ts'
import type { Database } from './database.ts'
import { describeDifferences } from './schema-object.ts'

/**
 * Warns of objects in the database that are not as the migrations make them: a trigger can undo a revocation. The console
 * starts, because operators add indexes.
 */
export async function reportSchema(
  { logger, metrics }: { readonly logger: ControlLogger; readonly metrics: Metrics },
  database: Database,
): Promise<void> {
  for (const kind of SCHEMA_DIFFERENCE_KINDS) metrics.schemaDifferences.set({ kind }, 0)
  try {
    const differences = await compareSchema(database)
    for (const { change } of differences) metrics.schemaDifferences.inc({ kind: change })
    if (differences.length === 0) return
    logger.warn(
      { differences: describeDifferences(differences), count: differences.length },
      'database schema is not as the migrations make it',
    )
  } catch (error) {
    metrics.schemaDifferences.set({ kind: 'unknown' }, 1)
    logger.warn({ cause: causeOf(error) }, 'database schema could not be compared')
  }
}
