import { existsSync } from 'node:fs'
import { chmod, copyFile, mkdtemp, realpath, rename, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import type { Transaction } from 'kysely'
import type { StoredKey } from '../../domain/key/key-record.ts'
import { appendAudit } from '../platform/audit/chain.ts'
import { type AuditContext, auditAccess, auditRevocation } from '../platform/audit/entries.ts'
import { type AuditKeys, UNSIGNED_AUDIT } from '../platform/audit/mac.ts'
import {
  DATABASE_SETTING,
  type Database,
  type ProgressDisplay,
  Refused,
} from '../platform/database/database.ts'
import {
  checkIntegrity,
  diskTroubleIn,
  isEmptyOrMissing,
  makeSingleFile,
  requireSqliteFile,
  sqliteFilePath,
} from '../platform/database/sqlite/database.ts'
import type { Tables } from '../platform/database/tables.ts'
import { openDatabase, readDatabase } from '../platform/open-database.ts'
import { MIGRATIONS } from '../schema.ts'
import { inspectBackup } from './back-up.ts'
import { keepUnderNewName } from './new-name.ts'
import {
  type Adopted,
  adoptNewer,
  announceAgain,
  type Known,
  requireKnown,
  type SeenRecords,
  withReplaced,
} from './newer-records.ts'
import {
  countKeys,
  requireAuditChain,
  requireNoConsole,
  requireOwnFile,
  requireSigningSecret,
  whileLocked,
} from './read-database.ts'
import { fillPostgres, publish, sync, withUnfinished } from './write-database.ts'

interface RestoreOptions {
  /** `database.url` */
  readonly url: string
  /** A backup. */
  readonly file: string
  /** Replaces a database that holds data. */
  readonly replace: boolean
  /** Null: revocations after the backup are not known. */
  readonly seen: SeenRecords | null
  /** Keys of which Redis has no record become as they were in the backup. */
  readonly allowsMissing: boolean
  /** Admin tokens of programs stay as they were in the backup, also those revoked since. */
  readonly keepsTokens: boolean
  /** Also restores an audit log that was changed, or has entries that no console wrote. */
  readonly allowsBrokenAudit: boolean
  /** Of the signing secrets: one of them must have signed keys of the backup. Empty if no secret is given. */
  readonly fingerprints: readonly string[]
  /** Of the signing secrets: the entry of the restore is signed with the first. */
  readonly auditKeys: AuditKeys
  readonly nowMs: number
  readonly newAuditId: (nowMs: number) => string
  readonly progress: ProgressDisplay
}

interface Restored {
  readonly keys: number
  readonly revoked: number
  readonly changed: number
  readonly tokensRevoked: number
  /** What Redis did not know; null if it was not asked. */
  readonly known: Known | null
  /** Why changes that Redis had missed could not be read from the replaced database; null if they were, or there was none. */
  readonly waitingUnread: string | null
}

export interface RestoreReport extends Restored {
  /** What breaks the audit chain of the backup, which was allowed; null if it is intact. */
  readonly brokenAudit: string | null
  /** The replaced SQLite database; null if there was none. */
  readonly aside: string | null
}

type PreparedCopy = Omit<RestoreReport, 'aside'>

/** As of a database that the console makes. */
const OWNER_ONLY = 0o600

const ALLOW_BROKEN_AUDIT =
  '. Nothing was changed. Use an earlier backup, or add --allow-broken-audit, which restores these entries as they are'

/** Puts a backup in place of a stopped console's database, all of it or nothing, after checking and preparing a copy. */
export async function restoreDatabase(options: RestoreOptions): Promise<RestoreReport> {
  const { url, file } = options
  await requireSqliteFile(file)
  try {
    const target = sqliteFilePath(url)
    return await (target === null ? restorePostgres(options) : restoreSqlite(options, target))
  } catch (error) {
    const trouble = diskTroubleIn(error)
    throw trouble === null ? error : new Refused(`Nothing was replaced: ${trouble}`)
  }
}

async function restoreSqlite(options: RestoreOptions, target: string): Promise<RestoreReport> {
  const file = existsSync(target) ? await realpath(target) : target
  return whileLocked(options.url, DATABASE_SETTING, async () => {
    if (!options.replace && !(await isEmptyOrMissing(file))) throw new Refused(replaceText(file))
    return withUnfinished(file, async unfinished => {
      const restored = await prepareCopy(options, unfinished)
      const aside = await keepAside(file, options.nowMs)
      await publish(unfinished, file)
      return { ...restored, aside }
    })
  })
}

/** By way of a prepared copy in the folder for temporary files. */
async function restorePostgres(options: RestoreOptions): Promise<RestoreReport> {
  const { url } = options
  // Also before anything is compared: what a console changes before it stops may have been compared already.
  await readDatabase(url, requireNoConsole, { seesConsoles: true })
  const directory = await mkdtemp(join(tmpdir(), 'postern-restore-'))
  try {
    const copy = join(directory, 'copy.db')
    const restored = await prepareCopy(options, copy)
    await readDatabase(`sqlite:${copy}`, source => fillPostgres(source, url, options))
    return { ...restored, aside: null }
  } finally {
    await rm(directory, { recursive: true, force: true })
  }
}

/** Checks the backup before anything is changed in its copy, and migrates it. */
async function prepareCopy(options: RestoreOptions, copy: string): Promise<PreparedCopy> {
  await copyFile(options.file, copy)
  // The copy has the mode of the backup, which other users may read, or the console not write.
  await chmod(copy, OWNER_ONLY)
  checkIntegrity(copy, options.file)
  // Before anything is written, which could run what was added.
  await readDatabase(`sqlite:${copy}`, database => requireOwnFile(database, options.file))
  const database = await openDatabase(`sqlite:${copy}`, MIGRATIONS)
  let restored: PreparedCopy
  try {
    await requireSigningSecret(database.reader, options.file, options.fingerprints)
    const check = { ...options, advice: ALLOW_BROKEN_AUDIT }
    const { brokenAudit } = await inspectBackup(copy, reader =>
      requireAuditChain(reader, options.file, check),
    )
    restored = { ...(await prepareRestored(database, options)), brokenAudit }
  } finally {
    await database.close()
  }
  makeSingleFile(copy)
  checkIntegrity(copy)
  return restored
}

/**
 * The database that is replaced gets another name as well, and keeps its own until the new one takes it. Its write-ahead log
 * must be gone by then: SQLite would apply it to the new file.
 */
async function keepAside(file: string, nowMs: number): Promise<string | null> {
  if (!existsSync(file)) return null
  const aside = freeName(`${file}.before-${new Date(nowMs).toISOString().replaceAll(/[-:]|\.\d+/g, '')}`)
  const isDamaged = !isMadeSingle(file)
  if (!(await keepUnderNewName(file, aside))) throw new Refused(`Nothing was replaced: ${aside} exists`)
  for (const suffix of LOG_SUFFIXES) {
    // A damaged one's log is kept beside it as it is.
    if (isDamaged && existsSync(`${file}${suffix}`)) await rename(`${file}${suffix}`, `${aside}${suffix}`)
  }
  await sync(dirname(file))
  return aside
}

const LOG_SUFFIXES = ['-wal', '-shm', '-journal']

/** Another restore may have been in the same second. */
function freeName(name: string): string {
  let free = name
  for (let count = 2; ['', ...LOG_SUFFIXES].some(suffix => existsSync(`${free}${suffix}`)); count++) {
    free = `${name}-${count}`
  }
  return free
}

function isMadeSingle(file: string): boolean {
  try {
    makeSingleFile(file)
    return true
  } catch {
    return false
  }
}

function replaceText(name: string): string {
  return `${name} holds data, so nothing was changed. Add --replace to restore in its place`
}

const NOTHING_SEEN: SeenRecords = { read: async () => new Map() }
const NO_PROGRESS: ProgressDisplay = { show: () => {} }
const NOTHING_ADOPTED: Pick<Adopted, 'revoked' | 'changed'> = { revoked: [], changed: 0 }

/**
 * Changes the copy of a backup so that nothing that was revoked after it works again. Where nothing else knows what was,
 * all of it is: sessions, and admin tokens of programs.
 * @throws Refused if keys that were revoked after the backup could work again
 */
async function prepareRestored(
  { writer }: Pick<Database, 'writer'>,
  options: RestoreOptions,
): Promise<Restored> {
  const { seen, allowsMissing, keepsTokens, auditKeys, nowMs } = options
  // One that is not replaced is empty.
  const waiting = options.replace ? withReplaced(seen ?? NOTHING_SEEN, options.url, nowMs) : null
  const records = waiting ?? seen
  const prepared = writer.transaction().execute(async tx => {
    if (auditKeys.size === 0) await requireUnsigned(tx)
    const progress = seen === null ? NO_PROGRESS : options.progress
    const adopted = records === null ? null : await adoptNewer(tx, records, { nowMs, progress })
    const known = seen === null ? null : adopted
    if (known !== null) requireKnown(known, allowsMissing)
    const { revoked, changed } = adopted ?? NOTHING_ADOPTED
    await announceAgain(tx, nowMs)
    await tx.deleteFrom('sessions').execute()
    const tokensRevoked = keepsTokens ? 0 : await revokeTokens(tx, nowMs)
    const keys = await countKeys(tx)
    const waitingUnread = waiting?.unreadBecause() ?? null
    const restored = { keys, revoked: revoked.length, changed, tokensRevoked, known, waitingUnread }
    await recordRestore(tx, restored, revoked, options)
    return restored
  })
  return prepared.finally(waiting?.close)
}

/** An entry of the restore without a MAC would look like one that no console wrote. */
async function requireUnsigned(tx: Transaction<Tables>): Promise<void> {
  const signed = await tx.selectFrom('audit').select('id').where('mac', 'is not', null).limit(1).execute()
  if (signed.length === 0) return
  throw new Refused(
    'keys.signingSecrets: set them as for the console. The restore is recorded in the audit log, whose entries are signed',
  )
}

async function revokeTokens(tx: Transaction<Tables>, nowMs: number): Promise<number> {
  const { numUpdatedRows } = await tx
    .updateTable('admin_tokens')
    .set({ revoked_at_ms: nowMs })
    .where('revoked_at_ms', 'is', null)
    .where('expires_at_ms', '>', nowMs)
    .executeTakeFirst()
  return Number(numUpdatedRows)
}

/** The latest time of a `Date`. */
const MAX_DATE_MS = 8.64e15

/** In the audit log: the restore, and what it revoked. */
async function recordRestore(
  tx: Transaction<Tables>,
  { keys, changed, tokensRevoked, known }: Restored,
  revoked: readonly StoredKey[],
  { auditKeys, nowMs, newAuditId }: RestoreOptions,
): Promise<void> {
  const newest = await tx
    .selectFrom('audit')
    .select(({ fn }) => fn.max('at_ms').as('atMs'))
    // A forged entry can have any time.
    .where('at_ms', '<=', MAX_DATE_MS)
    .executeTakeFirst()
  const about = {
    newestEntry: newest?.atMs == null ? null : new Date(newest.atMs).toISOString(),
    keys,
    revokedSince: revoked.length,
    changedSince: changed,
    tokensRevoked,
    comparedWithRedis: known === null ? 'no' : 'yes',
    unknownToRedis: known?.unknown ?? keys,
  }
  const context = (): AuditContext => ({
    id: newAuditId(nowMs),
    atMs: nowMs,
    caller: { actor: 'operator', address: 'local', requestId: 'restore' },
  })
  const entries = [
    auditAccess('database.restored', about, context()),
    ...revoked.map(({ record }) => auditRevocation(record, 'restore', context())),
  ]
  await appendAudit(tx, entries, { dialect: 'sqlite', audit: { ...UNSIGNED_AUDIT, keys: auditKeys } })
}
