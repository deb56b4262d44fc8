import { createHmac, createSecretKey, hkdfSync, type KeyObject, timingSafeEqual } from 'node:crypto'
import { type OnReload, reloadable } from '../../../config/reloadable.ts'
import type { Config } from '../../../config/schema/schema.ts'
import type { Clock } from '../../../domain/clock.ts'
import { fingerprintSecret } from '../../../domain/key/secret.ts'
import type { ControlLogger } from '../../../observability/control-logger.ts'
import type { Metrics } from '../../../observability/metrics/metrics.ts'
import type { Database } from '../database/database.ts'
import type { AuditFields, AuditRow, AuditSignature } from '../database/tables.ts'

/** Forms of their own: the MAC of a waiting entry is not valid in the chain, which it has no place in yet. */
const QUEUED_FORM = 'postern-audit-queued-1'
const CHAINED_FORM = 'postern-audit-chained-1'

/** A key for each signing secret that is given, by the secret's fingerprint. The first signs; all verify. */
export type AuditKeys = ReadonlyMap<string, KeyObject>

/** How the console recognises entries that it wrote. */
export interface AuditTrust {
  /** Empty without signing secrets: entries are not signed then, and cannot be verified. */
  readonly keys: AuditKeys
  /** Reports an entry that is neither shown nor added to the chain. */
  readonly onRejected: (rejected: RejectedEntry) => void
}

/** A database with the keys that sign and check its audit entries. */
export interface AuditedDatabase extends Database {
  readonly audit: AuditTrust
}

export interface RejectedEntry {
  readonly id: string
  readonly place: 'log' | 'queue'
  readonly reason: Exclude<MacVerdict, 'valid'> | 'repeated'
  readonly signedBy: string | null
}

/** `unknown`: the secret that signed it is not given, so that nothing can be said. */
export type MacVerdict = 'valid' | 'invalid' | 'unknown'

export const UNSIGNED_AUDIT: AuditTrust = { keys: new Map(), onRejected() {} }

const LOG_INTERVAL_MS = 60_000

interface TrustParts {
  readonly config: Pick<Config, 'keys'>
  readonly onReload: OnReload<Pick<Config, 'keys'>>
  readonly metrics: Pick<Metrics, 'auditRejections'>
  readonly logger: ControlLogger
  readonly clock: Clock
}

/** Signs audit entries with the current signing secrets. Rejected entries are counted; the log names one a minute. */
export function createAuditTrust({ config, onReload, metrics, logger, clock }: TrustParts): AuditTrust {
  const current = reloadable(config, onReload, importAuditKeys)
  let loggedAtMs = Number.NEGATIVE_INFINITY
  return {
    get keys() {
      return current.value
    },
    onRejected({ id, place, reason, signedBy }) {
      metrics.auditRejections.inc()
      const nowMs = clock.monotonicMs()
      if (nowMs - loggedAtMs < LOG_INTERVAL_MS) return
      loggedAtMs = nowMs
      logger.error({ auditId: id, place, reason, signedBy }, 'audit entry rejected')
    },
  }
}

/** The rows that a console wrote. Others are reported and not shown; without signing secrets all are shown. */
export function genuineRows(rows: readonly AuditRow[], { keys, onRejected }: AuditTrust): AuditRow[] {
  if (keys.size === 0) return [...rows]
  return rows.filter(row => {
    const reason = checkChained(keys, row)
    if (reason === 'valid') return true
    onRejected({ id: row.id, place: 'log', reason, signedBy: row.signed_by })
    return false
  })
}

/** Derived keys (RFC 5869): the MAC of an API key, a record or a message is never valid for an audit entry. */
export function deriveAuditKeys(signingSecrets: readonly Uint8Array[]): AuditKeys {
  return new Map(
    signingSecrets.map(secret => {
      const key = new Uint8Array(hkdfSync('sha256', secret, '', 'postern audit mac v1', 32))
      return [fingerprintSecret(secret), createSecretKey(key)]
    }),
  )
}

/** Of the settings of a command, which may lack them. */
export function importAuditKeys({ keys }: Pick<Config, 'keys'>): AuditKeys {
  return deriveAuditKeys(keys.signingSecrets.map(secret => Buffer.from(secret, 'base64')))
}

export function signQueued(keys: AuditKeys, entry: AuditFields): AuditSignature {
  return sign(keys, queuedText(entry))
}

export function signChained(keys: AuditKeys, row: ChainedFields): AuditSignature {
  return sign(keys, chainedText(row))
}

export function checkQueued(keys: AuditKeys, row: AuditFields & AuditSignature): MacVerdict {
  return check(keys, row, queuedText(row))
}

/** Of an entry by itself: its place in the chain is part of what is signed. */
export function checkChained(keys: AuditKeys, row: AuditRow): MacVerdict {
  return check(keys, row, chainedText(row))
}

type ChainedFields = Omit<AuditRow, keyof AuditSignature>

function queuedText(entry: AuditFields): string {
  return JSON.stringify([QUEUED_FORM, ...signedFields(entry)])
}

function chainedText(row: ChainedFields): string {
  return JSON.stringify([CHAINED_FORM, row.hash, row.sequence, ...signedFields(row)])
}

/** As stored, and in one order: texts and numbers are the same in both databases. */
export function signedFields(row: AuditFields): readonly (string | number)[] {
  const { id, workspace_id, at_ms, actor, action, key_id, detail } = row
  return [id, workspace_id, at_ms, actor, action, key_id, detail]
}

function sign(keys: AuditKeys, text: string): AuditSignature {
  const [first] = keys
  if (first === undefined) return { signed_by: null, mac: null }
  const [fingerprint, key] = first
  return { signed_by: fingerprint, mac: computeMac(key, text).toString('base64url') }
}

function check(keys: AuditKeys, { signed_by, mac }: AuditSignature, text: string): MacVerdict {
  if (keys.size === 0) return 'unknown'
  if (signed_by === null || mac === null) return 'invalid'
  const key = keys.get(signed_by)
  if (key === undefined) return 'unknown'
  const expected = computeMac(key, text)
  const given = Buffer.from(mac, 'base64url')
  return given.length === expected.length && timingSafeEqual(given, expected) ? 'valid' : 'invalid'
}

function computeMac(key: KeyObject, text: string): Buffer {
  return createHmac('sha256', key).update(text).digest()
}
