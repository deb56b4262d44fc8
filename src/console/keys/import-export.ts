import type { FastifyRequest } from 'fastify'
import { type Static, Type } from 'typebox'
import { Value } from 'typebox/value'
import { idPattern } from '../../domain/id-form.ts'
import { NAME_EXPECTED } from '../../domain/key/key-fields.ts'
import {
  DIGEST_EXPECTED,
  HINT_EXPECTED,
  IMPORTED_EXPIRY_EXPECTED,
  type ImportEntry,
  PAST_EXPECTED,
  planImport,
} from '../../domain/key/key-life.ts'
import { isWorkspaceId, type StoredKey, WORKSPACE_ID_EXPECTED } from '../../domain/key/key-record.ts'
import { isDigest, toRecordJson } from '../../domain/wire.ts'
import { isAnnounced } from '../announcing/index.ts'
import type { Caller } from '../platform/access/principal.ts'
import { auditImport } from '../platform/audit/entries.ts'
import { type AdminCall, declareCalls } from '../platform/http/calls.ts'
import { findExpectation } from '../platform/http/explain-error.ts'
import { chosenFields, fields, RECORD_FIELDS, textOrNull } from '../platform/http/fields.ts'
import { describeCaller, seesWorkspace } from '../platform/http/request-context.ts'
import { ROWS_AT_ONCE, sendJsonLines } from '../platform/http/send-file.ts'
import type { Registry } from './operations/registry.ts'
import { choosesPlans, PLAN_NOT_CHOSEN } from './plan-choice.ts'
import { PlansChanged } from './rows/bulk-rows.ts'
import type { WorkspacePlans } from './rows/plans.ts'
import type { KeyPage, StoredKeys } from './rows/stored-keys.ts'

const adminCall = declareCalls<Registry>()

/** It holds digests, and never a secret. */
const EXPORT = adminCall({
  id: 'exportKeys',
  method: 'GET',
  url: '/keys/export',
  operation: 'keys_export',
  permission: 'keys:write',
  workspaces: 'all',
  summary: 'Every key of every workspace with its digest, oldest first',
  format: 'lines',
  response: Type.Object({ digest: Type.String(), ...RECORD_FIELDS }, { title: 'ExportedKey' }),
  handle: async ({ stored }, { reply }) => sendJsonLines(reply, () => readAll(stored), exportedJson),
})

/** In the order of ids, so that a page costs the same wherever it begins. */
async function* readAll(stored: Pick<StoredKeys, 'listForSync'>): AsyncGenerator<readonly StoredKey[]> {
  let afterId: string | null = null
  do {
    const page: KeyPage = await stored.listForSync({ expiresAfterMs: null, limit: ROWS_AT_ONCE, afterId })
    yield page.keys
    afterId = page.nextAfterId
  } while (afterId !== null)
}

function exportedJson({ digest, record }: StoredKey) {
  return { digest, ...toRecordJson(record) }
}

/** A thousand entries with every field at its longest do not fit; ordinary ones have 300 bytes. */
const BODY_LIMIT_BYTES = 4 * 1024 * 1024

const pastInstant = Type.Optional(Type.Union([Type.String(), Type.Null()], { description: PAST_EXPECTED }))
/** The types of an entry; the domain validates values, with the same wording. */
const entrySchema = Type.Object(
  {
    digest: Type.String({ description: DIGEST_EXPECTED }),
    hint: Type.String({ description: HINT_EXPECTED }),
    workspaceId: Type.String({ description: WORKSPACE_ID_EXPECTED }),
    name: Type.String({ description: NAME_EXPECTED }),
    scopes: Type.Array(Type.String(), { maxItems: 1000, description: 'a list of scopes' }),
    expiresAt: Type.String({ description: IMPORTED_EXPIRY_EXPECTED }),
    ...chosenFields,
    revokedAt: pastInstant,
    suspendedAt: pastInstant,
    replacedBy: Type.Optional(
      Type.Union([Type.String({ pattern: `^${idPattern('key')}$` }), Type.Null()], {
        description: 'null or the id of the key that replaces this one',
      }),
    ),
  },
  { title: 'ImportedKey' },
)
type Entry = Static<typeof entrySchema>
/** An export has these too. An imported key has its own. */
const IGNORED_FIELDS = ['id', 'createdAt', 'createdBy', 'rotatedFrom', 'version']
const KNOWN_FIELDS = new Set([...Object.keys(entrySchema.properties), ...IGNORED_FIELDS])

/** Each entry is validated by itself: a wrong one does not keep the others out. */
const importBody = fields({
  keys: Type.Array(Type.Union([entrySchema, Type.Record(Type.String(), Type.Unknown())]), {
    minItems: 1,
    maxItems: 1000,
    description: 'a list of 1 to 1000 objects',
  }),
})

const importResults = Type.Object({
  imported: Type.Integer({ minimum: 0 }),
  results: Type.Array(
    Type.Object({
      digest: textOrNull,
      status: Type.Enum(['imported', 'exists', 'invalid']),
      error: Type.Optional(Type.String()),
      field: Type.Optional(Type.String()),
    }),
    { description: 'One for each entry, in their order' },
  ),
})

const IMPORTS = {
  method: 'POST',
  permission: 'keys:write',
  workspaces: 'own',
  bodyLimitBytes: BODY_LIMIT_BYTES,
  body: importBody,
  response: importResults,
} as const

/** Repeating it is safe without an Idempotency-Key. */
const IMPORT = adminCall({
  ...IMPORTS,
  id: 'importKeys',
  url: '/import',
  operation: 'keys_import',
  summary: 'Adds keys of another system by their digests',
  handle: async (registry, { request, body }) => {
    const entries = body.keys.map(entry => checkEntry(entry, request))
    const { imported, results } = await importEntries(registry, entries, describeCaller(request))
    return { imported, results }
  },
})

/** What an import of these entries would answer now. It changes nothing. */
const CHECK_IMPORT = adminCall({
  ...IMPORTS,
  id: 'checkImport',
  url: '/import/check',
  operation: 'keys_import_check',
  summary: 'What an import would do; nothing is changed',
  handle: async (registry, { request, body }) => {
    const entries = body.keys.map(entry => checkEntry(entry, request))
    const { planned, first } = await planEntries(registry, entries, describeCaller(request))
    const known = await registry.stored.findByDigests([...first.keys()])
    const imported = new Set([...first.values()].filter(({ digest }) => !known.has(digest)))
    return { imported: imported.size, results: planned.map(key => importResult(key, imported)) }
  },
})

/** Export and import of keys, without their prefix. */
export const TRANSFER_CALLS: readonly AdminCall<Registry>[] = [EXPORT, IMPORT, CHECK_IMPORT]

/** A workspace that the caller may not see is refused before the digest is looked for. */
function checkEntry(entry: Readonly<Record<string, unknown>>, request: FastifyRequest): CheckedEntry {
  const { digest: sent, id } = entry
  // What is no digest could be a key, and is not repeated.
  const digest = typeof sent === 'string' && isDigest(sent) ? sent : null
  const refused = (field: string | null, error: string) => ({ ok: false, digest, field, error }) as const
  if (!Object.keys(entry).every(name => KNOWN_FIELDS.has(name))) {
    return refused(null, 'An entry has only the fields of an exported key')
  }
  if (!isEntry(entry)) {
    const field = findInvalidField(entry)
    return refused(field, `${field} must be ${findExpectation(entrySchema, field)}`)
  }
  // Text that is no workspace id could be a key: the domain refuses it, and no log gets it.
  if (isWorkspaceId(entry.workspaceId) && !seesWorkspace(request, entry.workspaceId)) {
    return refused('workspaceId', 'No such workspace')
  }
  if (entry.plan !== undefined && !choosesPlans(request)) return refused('plan', PLAN_NOT_CHOSEN)
  return { ok: true, entry, exportedId: typeof id === 'string' ? id : null }
}

function isEntry(entry: unknown): entry is Entry {
  return Value.Check(entrySchema, entry)
}

/** The first field that is missing or of a wrong type. */
function findInvalidField(entry: Readonly<Record<string, unknown>>): string {
  const wrong = Object.entries(entrySchema.properties).find(([name, schema]) => {
    const alone = Type.Object({ [name]: schema })
    return !Value.Check(alone, entry)
  })
  return wrong?.[0] ?? 'digest'
}

/** An import is planned again after a concurrent change of a workspace's plan, which is rare. */
const MAX_ATTEMPTS = 8
/** Keys that are announced at once: few enough for heartbeats to go out in between. */
const ANNOUNCED_AT_ONCE = 250

/** An entry that may be imported, or what is wrong with it. */
type CheckedEntry =
  /** @property exportedId its id where it was exported */
  | { readonly ok: true; readonly entry: ImportEntry; readonly exportedId: string | null }
  /** @property field null if it has no name of ours */
  | {
      readonly ok: false
      readonly digest: string | null
      readonly field: string | null
      readonly error: string
    }

type ImportResult =
  | { readonly digest: string; readonly status: 'imported' | 'exists' }
  /** @property digest null if it is none: it could be a key */
  | {
      readonly digest: string | null
      readonly status: 'invalid'
      readonly error: string
      readonly field?: string
    }

interface ImportOutcome {
  readonly kind: 'import_done'
  readonly imported: number
  /** One for each entry, in their order. */
  readonly results: readonly ImportResult[]
}

/** Imports what is valid and not there yet, in one transaction. Repeating it is safe. */
export function importEntries(
  registry: Registry,
  entries: readonly CheckedEntry[],
  caller: Caller,
): Promise<ImportOutcome> {
  return registry.count('import', async () => {
    for (let attempts = 1; ; attempts++) {
      try {
        return await importValid(registry, entries, caller)
      } catch (error) {
        // The plan of a workspace changed meanwhile, which its keys have as well.
        if (!(error instanceof PlansChanged) || attempts === MAX_ATTEMPTS) throw error
      }
    }
  })
}

async function importValid(
  registry: Registry,
  entries: readonly CheckedEntry[],
  caller: Caller,
): Promise<ImportOutcome> {
  const { bulk, inEachRegion } = registry
  const { planned, first, workspacePlans } = await planEntries(registry, entries, caller)
  const describeChange = (key: StoredKey) => recordImport(registry, key, caller)
  const keys = [...first.values()]
  const done =
    keys.length === 0
      ? { keys: [], pending: [] }
      : await bulk.importKeys({ keys, workspacePlans, describeChange })
  for (let from = 0; from < done.keys.length; from += ANNOUNCED_AT_ONCE) {
    const until = from + ANNOUNCED_AT_ONCE
    // What is not announced in time is left to the outbox.
    const [keys, pending] = [done.keys.slice(from, until), done.pending.slice(from, until)]
    const announced = await inEachRegion(outbox => outbox.announce(keys, pending))
    if (!isAnnounced(announced)) break
  }
  const imported = new Set<StoredKey>(done.keys)
  return {
    kind: 'import_done',
    imported: imported.size,
    results: planned.map(key => importResult(key, imported)),
  }
}

/** The keys that the entries make, before any of them is looked for. @returns as `first`, by digest, those to import */
async function planEntries(registry: Registry, entries: readonly CheckedEntry[], caller: Caller) {
  const workspaces = new Set(entries.flatMap(checked => (checked.ok ? [checked.entry.workspaceId] : [])))
  const workspacePlans = await registry.plans.findPlans([...workspaces])
  const context = { caller, workspacePlans, nowMs: registry.clock.wallMs() }
  const alone = entries.map(checked => (checked.ok ? planEntry(registry, checked.entry, context) : checked))
  const planned = await nameSuccessors(registry, entries, alone)
  // Of entries with one digest the first is imported.
  const first = new Map<string, StoredKey>()
  for (const key of planned) if ('record' in key && !first.has(key.digest)) first.set(key.digest, key)
  return { planned, first, workspacePlans }
}

type PlannedEntry = StoredKey | Extract<CheckedEntry, { ok: false }>

interface ImportParts {
  readonly caller: Caller
  readonly workspacePlans: WorkspacePlans
  readonly nowMs: number
}

function planEntry(
  { newKeyId, keyPrefix, knownScopes, knownPlans }: Registry,
  entry: ImportEntry,
  { caller, workspacePlans, nowMs }: ImportParts,
): PlannedEntry {
  const { digest } = entry
  const own = { id: newKeyId(nowMs), createdBy: caller.actor, nowMs }
  const workspacePlan = workspacePlans.get(entry.workspaceId) ?? null
  const planned = planImport(entry, { ...own, keyPrefix, knownScopes, knownPlans, workspacePlan })
  if (planned.ok) return { record: planned.value, digest }
  const { field, expected } = planned
  return {
    ok: false,
    digest: field === 'digest' ? null : digest,
    field,
    error: `${field} must be ${expected}`,
  }
}

/** An export names the key that replaces another by its id there. If both are in one call, it gets the id that it has here. */
async function nameSuccessors(
  { stored }: Registry,
  entries: readonly CheckedEntry[],
  planned: readonly PlannedEntry[],
): Promise<readonly PlannedEntry[]> {
  const named = new Set(planned.map(successorOf))
  const successors = new Map<string, StoredKey>()
  for (const [index, key] of planned.entries()) {
    const checked = entries[index]
    const id = checked?.ok === true ? checked.exportedId : null
    if (id !== null && 'record' in key && named.has(id)) successors.set(id, key)
  }
  if (successors.size === 0) return planned
  const known = await stored.findByDigests([...successors.values()].map(({ digest }) => digest))
  return planned.map(key => {
    const successor = successors.get(successorOf(key) ?? '')
    if (successor === undefined || !('record' in key)) return key
    const { workspaceId, id } = (known.get(successor.digest) ?? successor).record
    return workspaceId === key.record.workspaceId
      ? { ...key, record: { ...key.record, replacedBy: id } }
      : key
  })
}

function successorOf(key: PlannedEntry): string | null {
  return 'record' in key ? key.record.replacedBy : null
}

function importResult(key: PlannedEntry, imported: ReadonlySet<StoredKey>): ImportResult {
  if ('record' in key) return { digest: key.digest, status: imported.has(key) ? 'imported' : 'exists' }
  const { digest, error, field } = key
  return { digest, status: 'invalid', error, ...(field === null ? {} : { field }) }
}

function recordImport({ newAuditId, createEvents }: Registry, issued: StoredKey, caller: Caller) {
  const { record } = issued
  const { createdAtMs } = record
  const audit = auditImport(record, { id: newAuditId(createdAtMs), atMs: createdAtMs, caller })
  return { audit, events: createEvents({ issued, replaced: null, record, audit: [audit] }) }
}
