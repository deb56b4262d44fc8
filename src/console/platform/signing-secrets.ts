import type { Kysely } from 'kysely'
import { SettingError } from '../../domain/errors.ts'
import { describeError } from '../../observability/control-logger.ts'
import { type ConsoleContext, importSecrets } from './capability.ts'
import type { Database } from './database/database.ts'
import type { Tables } from './database/tables.ts'

/**
 * Keeps a fingerprint of each secret that signed keys of this database, and does not start with secrets that signed none of
 * them: gateways would reject every key. During a rotation one of the secrets is known.
 */
export async function checkSigningSecrets(context: ConsoleContext, database: Database): Promise<void> {
  const { config, clock, secrets, logger, onReload } = context
  const { fingerprints } = secrets.value
  const nowMs = clock.wallMs()
  const known =
    config.keys.format === 'opaque'
      ? await readFingerprints(database.reader)
      : await requireKnownSecret(database.reader, fingerprints, nowMs)
  // Of a new database: keys that are imported may be signed by each of the secrets.
  await addFingerprints(database, known.size === 0 ? fingerprints : fingerprints.slice(0, 1), nowMs)
  onReload(next => {
    const [first] = importSecrets(next).fingerprints
    return () => {
      addFingerprints(database, first === undefined ? [] : [first], clock.wallMs()).catch((error: unknown) =>
        logger.warn(
          { cause: describeError(error) },
          'signing secret not recorded, will be at the next start',
        ),
      )
    }
  })
}

/**
 * @returns the fingerprints of the secrets that signed keys of this database
 * @throws SettingError if it has keys, and none of the given secrets is among them
 */
export async function requireKnownSecret(
  reader: Kysely<Tables>,
  fingerprints: readonly string[],
  nowMs: number,
): Promise<ReadonlySet<string>> {
  const known = await readFingerprints(reader)
  const isKnown = known.size === 0 || fingerprints.some(fingerprint => known.has(fingerprint))
  if (!isKnown) await requireNoKeys(reader, nowMs)
  return known
}

/** Revoked keys count too: their records in Redis and their audit entries could no longer be verified. */
async function requireNoKeys(reader: Kysely<Tables>, nowMs: number): Promise<void> {
  const { count } = await reader
    .selectFrom('keys')
    .where('expires_at_ms', '>', nowMs)
    .select(({ fn }) => fn.countAll<number>().as('count'))
    .executeTakeFirstOrThrow()
  if (Number(count) > 0) throw new SettingError(unknownSecretsText(Number(count)))
}

export async function readFingerprints(reader: Kysely<Tables>): Promise<ReadonlySet<string>> {
  const rows = await reader.selectFrom('signing_secrets').select('fingerprint').execute()
  return new Set(rows.map(({ fingerprint }) => fingerprint))
}

async function addFingerprints(
  { writer }: Database,
  fingerprints: readonly string[],
  nowMs: number,
): Promise<void> {
  if (fingerprints.length === 0) return
  await writer
    .insertInto('signing_secrets')
    .values(fingerprints.map(fingerprint => ({ fingerprint, first_used_at_ms: nowMs, signs_audit_at_ms: 0 })))
    .onConflict(conflict => conflict.doNothing())
    .execute()
}

function unknownSecretsText(count: number): string {
  const keys = count === 1 ? '1 key of this database is' : `${count} keys of this database are`
  return (
    `keys.signingSecrets: ${keys} in use or revoked, and none of these secrets signed any of them: no process could verify them. ` +
    'Add the former secret at the end of the list, or set database.url to the right database. If the former secret is lost, ' +
    'see docs/operate/rotate-secrets.md'
  )
}
