import { type Static, Type } from 'typebox'
import { toInstant } from '../../domain/form/instant.ts'
import { invalidField } from '../platform/http/api-error.ts'
import { type AdminCall, declareCalls } from '../platform/http/calls.ts'
import {
  cursorField,
  fields,
  instant,
  instantParameter,
  keyIdParameter,
  limit,
  listJson,
  pageSchema,
  parameter,
} from '../platform/http/fields.ts'
import { readConditions, readPage, readWorkspaceId } from '../platform/http/request-context.ts'
import { sendLines } from '../platform/http/send-file.ts'
import {
  MAX_REQUEST_ID,
  REFUSAL_CODES,
  REFUSAL_CURSOR,
  type RefusalFilter,
  type RefusalPage,
  readRefusalCursor,
  refusalCursor,
} from './read-refusals.ts'
import type { Usage } from './read-usage.ts'
import type { Refusal } from './reports/check-report.ts'
import { requireRefusals } from './require-stored.ts'

const adminCall = declareCalls<{ readonly usage: Usage }>()

const CODE_EXPECTED = `one of ${REFUSAL_CODES.join(', ')}`
const conditions = fields({
  code: parameter(CODE_EXPECTED),
  requestId: Type.Optional(
    Type.String({
      ...{ minLength: 1, maxLength: MAX_REQUEST_ID },
      description: `1 to ${MAX_REQUEST_ID} characters`,
    }),
  ),
  keyId: keyIdParameter,
  from: instantParameter,
  to: instantParameter,
})
const search = fields({ ...conditions.properties, limit, cursor: cursorField(REFUSAL_CURSOR.source) })

const refusal = Type.Object(
  {
    at: instant,
    workspaceId: Type.String(),
    route: Type.String(),
    code: Type.String({ description: 'As the client saw it' }),
    reason: Type.String({ description: 'Why; a newer release can add reasons' }),
    keyId: Type.String(),
    requestId: Type.String(),
    address: Type.String({ description: 'The /24 or /48 network of the client' }),
  },
  { title: 'Refusal' },
)
const refusals = Type.Object({
  ...pageSchema('refusals', refusal).properties,
  sampled: Type.Boolean({ description: 'Whether a gateway left some out' }),
})

const READING = { method: 'GET', permission: 'keys:read', status: 200 } as const

/** The admin API on refusals, without its prefix. */
export const REFUSAL_CALLS: readonly AdminCall<{ readonly usage: Usage }>[] = [
  adminCall({
    ...READING,
    id: 'listRefusals',
    url: '/workspaces/:workspaceId/refusals',
    workspaces: 'own',
    operation: 'refusals',
    summary: 'The last requests with keys of a workspace that were not served, newest first',
    query: search,
    response: refusals,
    errors: ['not_found', 'usage_disabled'],
    handle: async ({ usage }, { request, query }) => searchPage(usage, readWorkspaceId(request), query),
  }),
  adminCall({
    ...READING,
    id: 'searchRefusals',
    url: '/refusals',
    workspaces: 'all',
    operation: 'refusals',
    summary: 'The last requests with keys of all workspaces that were not served, newest first',
    query: search,
    response: refusals,
    errors: ['usage_disabled'],
    handle: async ({ usage }, { query }) => searchPage(usage, null, query),
  }),
  adminCall({
    ...READING,
    id: 'exportRefusals',
    url: '/refusals/export',
    workspaces: 'all',
    operation: 'refusals_export',
    summary: 'Every request with a key of any workspace that was not served and is kept, newest first',
    query: conditions,
    format: 'lines',
    response: refusal,
    errors: ['usage_disabled'],
    handle: async ({ usage }, { request, reply, query }) => {
      const filter = readFilter(query)
      requireRefusals(usage)
      return sendLines(request, reply, () => refusalLines(usage, filter))
    },
  }),
]

/** @param workspaceId null for all */
async function searchPage(usage: Usage, workspaceId: string | null, query: Static<typeof search>) {
  const { limit: most, afterId } = readPage(query)
  const filter = readFilter(query)
  requireRefusals(usage)
  const after = afterId === null ? null : readRefusalCursor(afterId)
  return pageJson(await usage.queries.searchRefusals({ filter, workspaceId, limit: most, after }))
}

function readFilter({ code, requestId, ...more }: Static<typeof conditions>): RefusalFilter {
  if (code !== undefined && !REFUSAL_CODES.includes(code)) throw invalidField('code', CODE_EXPECTED)
  return { code, requestId, ...readConditions(more) }
}

function pageJson({ refusals: found, sampled, nextAfter }: RefusalPage) {
  return listJson({ refusals: found.map(refusalJson), sampled }, refusalCursor(nextAfter))
}

async function* refusalLines({ queries }: Usage, filter: RefusalFilter): AsyncGenerator<string> {
  for await (const part of queries.readRefusals({ filter, workspaceId: null })) {
    if (part.length > 0) yield part.map(one => `${JSON.stringify(refusalJson(one))}\n`).join('')
  }
}

/** As every answer and file has it. */
export function refusalJson({ workspaceId, atMs, route, code, reason, keyId, requestId, address }: Refusal) {
  return { at: toInstant(atMs), workspaceId, route, code, reason, keyId, requestId, address }
}
