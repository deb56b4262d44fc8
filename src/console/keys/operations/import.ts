import { type ImportEntry, planImport } from '../../../domain/key/import-key.ts'
import type { KeyRecord, StoredKey } from '../../../domain/key/key-record.ts'
import { isAnnounced } from '../../announcing/index.ts'
import type { Caller } from '../../platform/access/principal.ts'
import { auditImport } from '../../platform/audit/entries.ts'
import type { Registry } from '../registry.ts'

/** Keys that are announced at once: few enough for heartbeats to go out in between. */
const ANNOUNCED_AT_ONCE = 250

/** An entry that may be imported, or what is wrong with it. */
export type CheckedEntry =
  | { readonly ok: true; readonly entry: ImportEntry }
  /** @property field null if it has no name of ours */
  | {
      readonly ok: false
      readonly digest: string | null
      readonly field: string | null
      readonly error: string
    }

export type ImportResult =
  | { readonly digest: string; readonly status: 'imported' | 'exists' }
  /** @property digest null if it is none: it could be a key */
  | {
      readonly digest: string | null
      readonly status: 'invalid'
      readonly error: string
      readonly field?: string
    }

export interface ImportOutcome {
  readonly kind: 'import_done'
  readonly imported: number
  /** One for each entry, in their order. */
  readonly results: readonly ImportResult[]
}

/** Imports what is valid and not there yet, in one transaction. Repeating it is safe. */
export async function importEntries(
  registry: Registry,
  entries: readonly CheckedEntry[],
  caller: Caller,
): Promise<ImportOutcome> {
  const { repository, outbox, clock } = registry
  const nowMs = clock.wallMs()
  const planned = entries.map(checked =>
    checked.ok ? planEntry(registry, checked.entry, caller, nowMs) : checked,
  )
  // Of entries with one digest the first is imported.
  const first = new Map<string, StoredKey>()
  for (const key of planned) if ('record' in key && !first.has(key.digest)) first.set(key.digest, key)
  const recordOf = (key: StoredKey) => recordImport(registry, key, caller)
  const keys = [...first.values()]
  const done = keys.length === 0 ? { keys: [], pending: [] } : await repository.importKeys({ keys, recordOf })
  for (let from = 0; from < done.keys.length; from += ANNOUNCED_AT_ONCE) {
    const until = from + ANNOUNCED_AT_ONCE
    // What is not announced in time is left to the outbox.
    const announced = await outbox.announceAll(done.keys.slice(from, until), done.pending.slice(from, until))
    if (!isAnnounced(announced)) break
  }
  const imported = new Set<StoredKey>(done.keys)
  return {
    kind: 'import_done',
    imported: imported.size,
    results: planned.map(key => resultOf(key, imported)),
  }
}

type PlannedEntry = StoredKey | Extract<CheckedEntry, { ok: false }>

function planEntry(
  { newKeyId, keyPrefix, knownScopes }: Registry,
  entry: ImportEntry,
  { actor: createdBy }: Caller,
  nowMs: number,
): PlannedEntry {
  const { digest } = entry
  const planned = planImport(entry, { id: newKeyId(nowMs), keyPrefix, createdBy, knownScopes, nowMs })
  if (planned.ok) return { record: planned.value, digest }
  const { field, expected } = planned
  return {
    ok: false,
    digest: field === 'digest' ? null : digest,
    field,
    error: `${field} must be ${expected}`,
  }
}

function resultOf(key: PlannedEntry, imported: ReadonlySet<StoredKey>): ImportResult {
  if ('record' in key) return { digest: key.digest, status: imported.has(key) ? 'imported' : 'exists' }
  const { digest, error, field } = key
  return { digest, status: 'invalid', error, ...(field === null ? {} : { field }) }
}

function recordImport({ newAuditId, createEvents }: Registry, { record, digest }: StoredKey, caller: Caller) {
  const audit = auditImport(record, contextOf(record, newAuditId, caller))
  const change = { kind: 'planned', replaced: null, record, digest, secret: null } as const
  return { audit, events: createEvents({ ...change, issued: { record, digest }, audit: [audit] }) }
}

function contextOf({ createdAtMs }: KeyRecord, newAuditId: Registry['newAuditId'], caller: Caller) {
  return { id: newAuditId(createdAtMs), atMs: createdAtMs, caller }
}
