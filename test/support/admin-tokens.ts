import { randomBytes } from 'node:crypto'
import { type AdminTokens, createAdminTokens } from '../../src/control/access/admin-tokens.ts'
import type { Database } from '../../src/control/registry/database/database.ts'
import { createIds } from '../../src/control/registry/operations/ids.ts'
import type { Clock } from '../../src/domain/clock.ts'
import { importSigningSecret } from '../../src/domain/key/secret.ts'
import { createMetrics } from '../../src/observability/metrics/metrics.ts'
import { SIGNING_SECRET } from './signing-secret.ts'
import { silentLogger } from './silent-logger.ts'

/** The admin tokens of a console, without the console. */
export function adminTokensIn(database: Database, clock: Clock): AdminTokens {
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
