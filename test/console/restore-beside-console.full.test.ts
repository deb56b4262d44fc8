import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { restoreDatabase } from '../../src/console/backup/restore.ts'
import { readKeyRow } from '../../src/console/platform/database/key-row.ts'
import { trustIn } from '../support/audit-trust.ts'
import { fillDatabase } from '../support/filled-database.ts'
import { openDatabase } from '../support/open-database.ts'
import { runPosternHere } from '../support/postern-here.ts'
import { PostgresServer } from '../support/postgres-server.ts'
import { temporaryDirectory } from '../support/temporary-directory.ts'
import { has, POSTGRES } from '../support/tools.ts'

/** More than are compared at once. */
const KEYS = 600

describe.skipIf(!has(POSTGRES))('a restore into PostgreSQL', () => {
  let postgres: PostgresServer
  beforeAll(async () => {
    postgres = await PostgresServer.started()
  })
  afterAll(() => postgres.stop())

  test('is refused beside a console, also one that stops while keys are compared: it may have revoked some that were', async () => {
    const url = await postgres.database()
    const file = join(temporaryDirectory(), 'backup.db')
    await fillDatabase(url, KEYS)
    const saved = await runPosternHere(['database', 'backup', file], { POSTERN_DATABASE_URL: url })
    expect(saved.code).toBe(0)
    const console = await openDatabase(url)
    const keysOf = (digests: readonly string[]) =>
      console.reader.selectFrom('keys').selectAll().where('digest', 'in', digests).execute()
    const [first] = await console.reader.selectFrom('keys').selectAll().orderBy('id').limit(1).execute()
    let reads = 0
    const seen = {
      async read(digests: readonly string[]) {
        const rows = await keysOf(digests)
        if (++reads === 2) {
          const revoked = { revoked_at_ms: Date.now(), version: 2 }
          await console.writer
            .updateTable('keys')
            .set(revoked)
            .where('id', '=', first?.id ?? '')
            .execute()
          await console.close()
        }
        const entry = (grant: ReturnType<typeof readKeyRow>['record']) => ({
          region: null,
          grant,
          isUnverified: false,
        })
        return new Map(rows.map(readKeyRow).map(({ digest, record }) => [digest, [entry(record)]]))
      },
    }
    const restored = restoreDatabase({
      url,
      file,
      seen,
      replace: true,
      allowsMissing: true,
      keepsTokens: false,
      allowsBrokenAudit: true,
      fingerprints: [],
      auditKeys: trustIn().keys,
      nowMs: Date.now(),
      newAuditId: () => 'audit_restore',
      progress: { show: () => {} },
    })
    await expect(restored).rejects.toThrow('A console uses this PostgreSQL database')
    expect(reads).toBe(0)
    await console.close()
  })
})
