import { createHmac, createSecretKey, hkdfSync, type KeyObject } from 'node:crypto'
import { MAX_CIDRS, normalizeCidrs } from './form/address.ts'
import { parseInstant, toInstant } from './form/instant.ts'
import { parseJsonObject } from './form/json.ts'
import { SHORT_NAME } from './id-form.ts'
import {
  isScope,
  isWorkspaceId,
  type KeyGrant,
  type KeyRecord,
  MAX_VERSION,
  normalizeScopes,
} from './key/key-record.ts'
import type { TextName } from './key/key-texts.ts'

/** The names in Redis and the format of a record, used by both planes. Messages: `invalidation-message.ts`. */
export const CHANGES_CHANNEL = 'postern:keys:changed'

/**
 * Schemas of the record on the wire. A reader rejects a newer one and asks the key service instead. A record has the
 * second only if it restricts a key in a way that readers of the first would overlook, and the third only if the key has a
 * plan, whose limits readers of the others would overlook: they must not use it.
 */
const SCHEMA_VERSION = 1
const RESTRICTED_SCHEMA_VERSION = 2
const PLAN_SCHEMA_VERSION = 3
const SCHEMA_VERSIONS: readonly unknown[] = [SCHEMA_VERSION, RESTRICTED_SCHEMA_VERSION, PLAN_SCHEMA_VERSION]
/** A record has a few hundred bytes; the console never writes a longer entry. */
export const MAX_RECORD_BYTES = 16 * 1024
/** Index of the last byte that GETRANGE reads: one byte more than a record may have, to detect a longer entry. */
export const RECORD_RANGE_END = MAX_RECORD_BYTES
const MAX_SCOPES = 64
const DIGEST = /^[0-9a-f]{64}$/
const KEY_ID = /^[\x21-\x7e]{1,128}$/

/** Redis holds a record for this long after expiry, so that clients still learn why their key is rejected. */
export const KEPT_AFTER_EXPIRY_MS = 86_400_000

export function recordKeyName(digest: string): string {
  return `postern:key:${digest}`
}

/** Keys that never exist, in the first and in the last slot of a cluster: no node of several has both. */
export const REDIS_PROBE_KEYS = ['probe-17895', 'probe-308789'].map(recordKeyName)

export function isDigest(text: string): boolean {
  return DIGEST.test(text)
}

type Instants = 'createdAtMs' | 'expiresAtMs' | 'revokedAtMs' | 'suspendedAtMs'

/** A record with instants in ISO 8601, UTC: the format of the admin API, the key service and Redis. */
export interface RecordJson extends Omit<KeyRecord, Instants> {
  readonly createdAt: string
  readonly expiresAt: string
  readonly revokedAt: string | null
  readonly suspendedAt: string | null
}

export function toRecordJson(record: KeyRecord): RecordJson {
  const { createdAtMs, expiresAtMs, revokedAtMs, suspendedAtMs, ...unchanged } = record
  return {
    ...unchanged,
    createdAt: toInstant(createdAtMs),
    expiresAt: toInstant(expiresAtMs),
    revokedAt: toInstant(revokedAtMs),
    suspendedAt: toInstant(suspendedAtMs),
  }
}

/** A derived key (RFC 5869): the MAC of an API key is never valid for a record. */
export function deriveRecordKey(signingSecret: Uint8Array): KeyObject {
  return createSecretKey(new Uint8Array(hkdfSync('sha256', signingSecret, '', 'postern record mac v1', 32)))
}

/**
 * The text stored in Redis under `recordKeyName(digest)`, and returned by the key service.
 * @param recordKey the key that signs, or null if keys are opaque and no signing secret is set
 */
export function encodeRecord(record: KeyRecord, digest: string, recordKey: KeyObject | null): string {
  const body = recordBody(record)
  // Signs the fields as a reader decodes them, so that every written record passes the check of its MAC.
  const grant = readGrant(body)
  if (grant === null) throw new RangeError(`The record of ${record.id} has a field that no reader would take`)
  if (recordKey === null) return JSON.stringify(body)
  return JSON.stringify({ ...body, mac: macOfGrant(grant, digest, recordKey) })
}

/** What every record on the wire has: not the texts, which no gateway needs. Restrictions are named apart. */
type UnrestrictedJson = Omit<RecordJson, TextName | 'suspendedAt' | 'allowedCidrs' | 'plan'>

/**
 * The fields that are named here and no others. A revoked record names neither restriction nor plan, so that every reader, also of the first
 * schema, takes it as revoked.
 */
function recordBody(record: KeyRecord): Record<string, unknown> {
  const json = toRecordJson(record)
  const body: UnrestrictedJson = {
    id: json.id,
    workspaceId: json.workspaceId,
    name: json.name,
    scopes: json.scopes,
    hint: json.hint,
    createdAt: json.createdAt,
    createdBy: json.createdBy,
    expiresAt: json.expiresAt,
    revokedAt: json.revokedAt,
    rotatedFrom: json.rotatedFrom,
    replacedBy: json.replacedBy,
    version: json.version,
  }
  if (record.revokedAtMs !== null) return { v: SCHEMA_VERSION, ...body }
  const { suspendedAt, allowedCidrs, plan } = json
  const suspended = suspendedAt === null ? {} : { suspendedAt }
  const cidrs = allowedCidrs.length === 0 ? {} : { allowedCidrs }
  const named = plan === null ? {} : { plan }
  return { v: schemaVersion(record), ...body, ...suspended, ...cidrs, ...named }
}

function schemaVersion({ suspendedAtMs, allowedCidrs, plan }: KeyGrant): number {
  if (plan !== null) return PLAN_SCHEMA_VERSION
  return suspendedAtMs !== null || allowedCidrs.length > 0 ? RESTRICTED_SCHEMA_VERSION : SCHEMA_VERSION
}

type DecodedRecord =
  | { readonly ok: true; readonly grant: KeyGrant }
  | { readonly ok: false; readonly why: 'malformed' | 'unknown_schema' | 'bad_mac' }

/**
 * Reads a record from another process. Unknown fields are ignored, so that an older reader understands a newer
 * writer of the same schema; every field that affects a decision must be present and valid.
 * @param recordKeys one of them must have made the MAC; null if the source itself is trusted (the key service) or no
 * signing secret is set
 */
export function decodeRecord(
  text: string,
  digest: string,
  recordKeys: readonly KeyObject[] | null,
): DecodedRecord {
  const json = parseJsonObject(text, MAX_RECORD_BYTES)
  if (json === null) return { ok: false, why: 'malformed' }
  const { v = SCHEMA_VERSION } = json
  if (!SCHEMA_VERSIONS.includes(v)) return { ok: false, why: 'unknown_schema' }
  const grant = readGrant(json)
  if (grant === null) return { ok: false, why: 'malformed' }
  const mac = json['mac']
  if (recordKeys !== null && !recordKeys.some(key => mac === macOfGrant(grant, digest, key))) {
    return { ok: false, why: 'bad_mac' }
  }
  return { ok: true, grant }
}

function readGrant(json: Record<string, unknown>): KeyGrant | null {
  const { id, workspaceId, scopes, version } = json
  // A key service of another maker may omit the hint, and fields that a key does not have. In Redis the MAC covers all of it.
  const { hint = '', plan = null } = json
  const expiresAtMs = readInstant(json['expiresAt'])
  const revokedAtMs = readOptionalInstant(json['revokedAt'])
  const suspendedAtMs = readOptionalInstant(json['suspendedAt'])
  const allowedCidrs = parseCidrs(json['allowedCidrs'])
  if (typeof id !== 'string' || !KEY_ID.test(id)) return null
  if (typeof workspaceId !== 'string' || !isWorkspaceId(workspaceId)) return null
  if (!isScopeList(scopes)) return null
  if (typeof hint !== 'string' || hint.length > 128) return null
  if (expiresAtMs === null || revokedAtMs === undefined || suspendedAtMs === undefined) return null
  if (allowedCidrs === null || !isVersion(version)) return null
  if (plan !== null && (typeof plan !== 'string' || !SHORT_NAME.test(plan))) return null
  return {
    id,
    workspaceId,
    scopes: normalizeScopes(scopes),
    hint,
    expiresAtMs,
    revokedAtMs,
    suspendedAtMs,
    allowedCidrs,
    plan,
    version,
  }
}

/**
 * Signs a list with fixed positions, so that no two grants have the same signed bytes. Each schema has the list that readers of
 * it know.
 */
function macOfGrant(grant: KeyGrant, digest: string, recordKey: KeyObject): string {
  const { id, workspaceId, scopes, hint, expiresAtMs, revokedAtMs, version, ...restrictions } = grant
  const { suspendedAtMs, allowedCidrs, plan, ...unsigned } = restrictions
  // A new field of a grant is an error here until it is signed.
  unsigned satisfies Readonly<Record<string, never>>
  const schema = schemaVersion(grant)
  const signed = JSON.stringify([
    schema,
    digest,
    id,
    workspaceId,
    scopes,
    hint,
    expiresAtMs,
    revokedAtMs,
    version,
    ...(schema >= RESTRICTED_SCHEMA_VERSION ? [suspendedAtMs, allowedCidrs] : []),
    ...(schema >= PLAN_SCHEMA_VERSION ? [plan] : []),
  ])
  return createHmac('sha256', recordKey).update(signed).digest('base64url')
}

function isScopeList(value: unknown): value is string[] {
  return (
    Array.isArray(value) &&
    value.length <= MAX_SCOPES &&
    value.every(scope => typeof scope === 'string' && isScope(scope))
  )
}

/** A whole number that the console's database can hold. */
export function isVersion(value: unknown): value is number {
  return isCount(value) && value <= MAX_VERSION
}

export function isCount(value: unknown): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0
}

const NO_CIDRS: readonly string[] = []

/** @returns null for what is no list of IP addresses and CIDRs */
function parseCidrs(value: unknown): readonly string[] | null {
  if (value === undefined || value === null) return NO_CIDRS
  if (!Array.isArray(value) || value.length > MAX_CIDRS) return null
  if (value.length === 0) return NO_CIDRS
  const texts = value.filter(cidr => typeof cidr === 'string')
  return texts.length < value.length ? null : normalizeCidrs(texts)
}

/** @returns null for what is absent, undefined for what is no instant */
function readOptionalInstant(value: unknown): number | null | undefined {
  return value === undefined || value === null ? null : (readInstant(value) ?? undefined)
}

function readInstant(value: unknown): number | null {
  return typeof value === 'string' ? parseInstant(value) : null
}
