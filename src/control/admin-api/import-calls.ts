import type { FastifyRequest } from 'fastify'
import { type Static, type TProperties, Type } from 'typebox'
import { Value } from 'typebox/value'
import {
  DIGEST_EXPECTED,
  HINT_EXPECTED,
  IMPORTED_EXPIRY_EXPECTED,
  PAST_EXPECTED,
} from '../../domain/key/import-key.ts'
import { isWorkspaceId } from '../../domain/key/key-record.ts'
import { isDigest } from '../../domain/wire.ts'
import type { AdminCall } from '../http/calls.ts'
import { callerOf, seesWorkspace } from '../http/request-context.ts'
import { type CheckedEntry, importEntries } from '../registry/operations/import.ts'
import type { OperationCounter } from '../registry/operations/operation-counter.ts'
import type { Registry } from '../registry/registry.ts'
import { EXPECTED, type ImportBody, importBody } from './admin-schemas.ts'

/** A thousand entries with every field at its longest do not fit; ordinary ones have 300 bytes. */
const BODY_LIMIT_BYTES = 4 * 1024 * 1024

/** The types of an entry; the domain validates values, with the same wording. */
const nullable = Type.Union([Type.String(), Type.Null()])
const IMPORTED_FIELDS = {
  digest: Type.String(),
  hint: Type.String(),
  workspaceId: Type.String(),
  name: Type.String(),
  scopes: Type.Array(Type.String(), { maxItems: 1000 }),
  expiresAt: Type.String(),
  description: Type.Optional(nullable),
  allowedCidrs: Type.Optional(Type.Union([Type.Array(Type.String()), Type.Null()])),
  revokedAt: Type.Optional(nullable),
  suspendedAt: Type.Optional(nullable),
} satisfies TProperties
const entrySchema = Type.Object(IMPORTED_FIELDS)
type Entry = Static<typeof entrySchema>
/** An export has these too. An imported key has its own. */
const IGNORED_FIELDS = ['id', 'createdAt', 'createdBy', 'rotatedFrom', 'replacedBy', 'version']
const KNOWN_FIELDS = new Set([...Object.keys(IMPORTED_FIELDS), ...IGNORED_FIELDS])

const EXPECTED_OF_ENTRY: Readonly<Record<string, string>> = {
  ...EXPECTED,
  digest: DIGEST_EXPECTED,
  hint: HINT_EXPECTED,
  expiresAt: IMPORTED_EXPIRY_EXPECTED,
  revokedAt: PAST_EXPECTED,
  suspendedAt: PAST_EXPECTED,
}

/** The import of keys of another system, without its prefix. Repeating it is safe without an Idempotency-Key. */
export function importCalls(registry: Registry, count: OperationCounter): AdminCall[] {
  return [
    {
      method: 'POST',
      url: '/import',
      operation: 'keys_import',
      permission: 'keys:write',
      workspaces: 'own',
      bodyLimitBytes: BODY_LIMIT_BYTES,
      schema: { body: importBody },
      handle: async request => {
        // The route's schema has validated the body.
        const entries = (request.body as ImportBody).keys.map(entry => checkEntry(entry, request))
        const run = () => importEntries(registry, entries, callerOf(request))
        const { imported, results } = await count('import', run)
        return { imported, results }
      },
    },
  ]
}

/** A workspace that the caller may not see is refused before the digest is looked for. */
function checkEntry(entry: Readonly<Record<string, unknown>>, request: FastifyRequest): CheckedEntry {
  const { digest: sent } = entry
  // What is no digest could be a key, and is not repeated.
  const digest = typeof sent === 'string' && isDigest(sent) ? sent : null
  const refused = (field: string | null, error: string) => ({ ok: false, digest, field, error }) as const
  if (!Object.keys(entry).every(name => KNOWN_FIELDS.has(name))) {
    return refused(null, 'An entry has only the fields of an exported key')
  }
  if (!isEntry(entry)) {
    const field = fieldOf(entry)
    return refused(field, `${field} must be ${EXPECTED_OF_ENTRY[field] ?? 'in a valid format'}`)
  }
  // Text that is no workspace id could be a key: the domain refuses it, and no log gets it.
  if (isWorkspaceId(entry.workspaceId) && !seesWorkspace(request, entry.workspaceId)) {
    return refused('workspaceId', 'No such workspace')
  }
  return { ok: true, entry }
}

function isEntry(entry: unknown): entry is Entry {
  return Value.Check(entrySchema, entry)
}

/** The first field that is missing or of a wrong type. */
function fieldOf(entry: Readonly<Record<string, unknown>>): string {
  const wrong = Object.entries(IMPORTED_FIELDS).find(([name, schema]) => {
    const alone = Type.Object({ [name]: schema })
    return !Value.Check(alone, entry)
  })
  return wrong?.[0] ?? 'digest'
}
