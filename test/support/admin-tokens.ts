import { randomBytes } from 'node:crypto'
import type { AuditedDatabase } from '../../src/console/platform/audit/mac.ts'
import { createIds } from '../../src/console/platform/database/ids.ts'
import { type AdminTokens, createAdminTokens } from '../../src/console/tokens/operations.ts'
import type { Clock } from '../../src/domain/clock.ts'
import { importSigningSecret } from '../../src/domain/key/secret.ts'
import { createMetrics } from '../../src/observability/metrics/metrics.ts'
import { SIGNING_SECRET } from './signing-secret.ts'
import { silentLogger } from './silent-logger.ts'

/** The admin tokens of a console, without the console. */
export function adminTokensIn(database: AuditedDatabase, clock: Clock): AdminTokens {
  return createAdminTokens({
    database,
    clock,
    randomBytes,
    logger: silentLogger,
    metrics: createMetrics(),
    newTokenId: createIds('tok', randomBytes),
    newAuditId: createIds('audit', randomBytes),
    keyPrefix: 'wsk_',
    signingKeys: () => [importSigningSecret(SIGNING_SECRET)],
  })
}
