import type { FastifyRequest } from 'fastify'
import { type Static, Type } from 'typebox'
import type { Clock } from '../../domain/clock.ts'
import { toInstant } from '../../domain/instant.ts'
import { isWorkspaceId, type KeyRecord } from '../../domain/key/key-record.ts'
import { allowedWorkspaces } from '../platform/access/principal.ts'
import { ApiError, invalidField } from '../platform/http/api-error.ts'
import { type AdminCall, type CheckedRequest, declareCalls } from '../platform/http/calls.ts'
import {
  cursorField,
  fields,
  instant,
  instantParameter,
  limit,
  listJson,
  type PageQuery,
  pageSchema,
  parameter,
  WORKSPACE_ID_EXPECTED,
} from '../platform/http/fields.ts'
import {
  noSuchKey,
  readKeyId,
  readPage,
  readWorkspaceId,
  requirePrincipal,
  seesWorkspace,
} from '../platform/http/request-context.ts'
import type { Refusal } from './check-report.ts'
import type { LimitsInUse } from './limit-windows.ts'
import { NEAR_LIMIT_CURSOR, nearLimitJson, readNearLimitCursor } from './near-limits-reader.ts'
import {
  MAX_REQUEST_ID,
  REFUSAL_CODES,
  REFUSAL_CURSOR,
  type RefusalPage,
  readRefusalCursor,
  refusalCursor,
} from './read-refusals.ts'
import { bucketStartMs, parseUsageRange, type Usage, type UsagePoint, type UsageRange } from './read-usage.ts'

const requests = Type.Integer({ minimum: 0 })
/** What is left of a rate limit, in the admin API. */
const limitWindow = Type.Object(
  {
    policy: Type.String({ description: 'Its name' }),
    plan: Type.Union([Type.String(), Type.Null()], {
      description: 'Whose policy it is; null: of keys without a plan',
    }),
    per: Type.Union([Type.Literal('workspace'), Type.Literal('key')]),
    region: Type.Union([Type.String(), Type.Null()], { description: 'Null if the console names no regions' }),
    limit: requests,
    remaining: Type.Union([requests, Type.Null()], { description: 'Requests; null: unknown' }),
    resetsAt: Type.Union([instant, Type.Null()], {
      description: 'Null: the window begins with the next request, or unknown',
    }),
  },
  { title: 'LimitWindow' },
)

/** A limit that is nearly used up, in the admin API. */
const nearLimit = Type.Object(
  {
    workspaceId: Type.String(),
    keyId: Type.Union([Type.String(), Type.Null()], {
      description: 'Null: the requests of all keys of the workspace are counted together',
    }),
    ...Type.Omit(limitWindow, ['remaining', 'resetsAt']).properties,
    used: requests,
    remaining: requests,
    resetsAt: instant,
    reportedAt: Type.String({ format: 'date-time', description: 'When a gateway last said so' }),
  },
  { title: 'NearLimit' },
)

export interface UsageCallParts {
  readonly usage: Usage
  readonly keys: {
    findById(id: string): Promise<{ readonly record: KeyRecord } | null>
    findPlan(workspaceId: string): Promise<string | null>
  }
  readonly clock: Clock
}

const adminCall = declareCalls<UsageCallParts>()

const STEPS = [Type.Literal('hour'), Type.Literal('day')] as const
const rangeQuery = fields({
  from: instantParameter,
  to: instantParameter,
  step: Type.Optional(Type.Union([...STEPS], { description: 'hour or day' })),
})
type RangeQuery = Static<typeof rangeQuery>
const refusalsPage = { limit, cursor: cursorField(REFUSAL_CURSOR.source) }
const CODE_EXPECTED = `one of ${REFUSAL_CODES.join(', ')}`
const refusalSearch = fields({
  code: parameter(CODE_EXPECTED),
  requestId: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: MAX_REQUEST_ID,
      description: `1 to ${MAX_REQUEST_ID} characters`,
    }),
  ),
  ...refusalsPage,
})

const requestsBy = (description: string) => Type.Record(Type.String(), requests, { description })
const usageResponse = Type.Object(
  {
    step: Type.Union([...STEPS]),
    from: instant,
    to: instant,
    usage: Type.Array(
      Type.Object({
        at: instant,
        requests,
        byCode: requestsBy('`ok`, and the codes of requests that were not served'),
        byRoute: requestsBy('Names of routes'),
      }),
      { description: 'An entry for each hour or day, also without requests' },
    ),
    windows: Type.Array(limitWindow, {
      description:
        'What is left of each rate limit; of a workspace, of those that count all its keys. One for each region',
    }),
  },
  { title: 'Usage' },
)
type UsageResponse = Static<typeof usageResponse>

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
const refusalsResponse = Type.Object({
  ...pageSchema('refusals', refusal).properties,
  sampled: Type.Boolean({ description: 'Whether a gateway left some out' }),
})

const READING = { method: 'GET', permission: 'keys:read', workspaces: 'own', status: 200 } as const

/** The admin API on counts and refusals, without its prefix. */
export const USAGE_CALLS: readonly AdminCall<UsageCallParts>[] = [
  adminCall({
    ...READING,
    id: 'getKeyUsage',
    url: '/keys/:keyId/usage',
    operation: 'key_usage',
    summary: 'Requests with a key, by hour or day',
    query: rangeQuery,
    response: usageResponse,
    errors: ['not_found', 'usage_disabled'],
    handle: showKeyUsage,
  }),
  adminCall({
    ...READING,
    id: 'listNearLimits',
    url: '/limits',
    operation: 'limits',
    summary: 'Rate limits that a key or workspace has used by at least 80 %, the fullest first',
    query: fields({
      workspaceId: parameter(WORKSPACE_ID_EXPECTED),
      limit,
      cursor: cursorField(NEAR_LIMIT_CURSOR.source),
    }),
    response: pageSchema('limits', nearLimit),
    errors: ['not_found'],
    handle: async ({ usage }, { request, query: { workspaceId, ...query } }) => {
      const { limit: most, afterId } = readPage(query)
      const { limits, nextAfter } = await usage.nearLimits.list({
        workspaceIds: readListed(workspaceId, request),
        limit: most,
        after: afterId === null ? null : readNearLimitCursor(afterId),
      })
      const items = limits.map(row => ({ ...nearLimitJson(row), reportedAt: toInstant(row.reported_at_ms) }))
      return listJson({ limits: items }, nextAfter)
    },
  }),
  adminCall({
    ...READING,
    id: 'getWorkspaceUsage',
    url: '/workspaces/:workspaceId/usage',
    operation: 'workspace_usage',
    summary: 'Requests with the keys of a workspace, by hour or day',
    query: rangeQuery,
    response: usageResponse,
    errors: ['not_found', 'usage_disabled'],
    handle: async ({ usage, keys, clock }, { request, query }) => {
      const workspaceId = readWorkspaceId(request)
      requireCounts(usage)
      const range = readRange(query, clock.wallMs())
      const points = await usage.queries.readWorkspace(workspaceId, range)
      const limits = await usage.limits.ofWorkspace(workspaceId, await keys.findPlan(workspaceId))
      return usageJson(range, points, limits)
    },
  }),
  adminCall({
    ...READING,
    id: 'listRefusals',
    url: '/workspaces/:workspaceId/refusals',
    operation: 'refusals',
    summary: 'The last requests with keys of a workspace that were not served, newest first',
    query: fields(refusalsPage),
    response: refusalsResponse,
    errors: ['not_found', 'usage_disabled'],
    handle: async ({ usage }, { request, query }) => {
      const workspaceId = readWorkspaceId(request)
      requireRefusals(usage)
      return refusalsJson(await usage.queries.listRefusals({ workspaceId, ...readRefusalsPage(query) }))
    },
  }),
  adminCall({
    ...READING,
    id: 'searchRefusals',
    url: '/refusals',
    workspaces: 'all',
    operation: 'refusals',
    summary: 'The last requests with keys of all workspaces that were not served, newest first',
    query: refusalSearch,
    response: refusalsResponse,
    errors: ['usage_disabled'],
    handle: async ({ usage }, { query: { code, requestId = '', ...page } }) => {
      if (code !== undefined && !REFUSAL_CODES.includes(code)) throw invalidField('code', CODE_EXPECTED)
      requireRefusals(usage)
      const conditions = { code: code ?? '', requestId }
      return refusalsJson(await usage.queries.searchRefusals({ ...conditions, ...readRefusalsPage(page) }))
    },
  }),
]

async function showKeyUsage(
  { usage, keys, clock }: UsageCallParts,
  { request, query }: CheckedRequest<RangeQuery, unknown>,
): Promise<UsageResponse> {
  const key = await keys.findById(readKeyId(request))
  if (key === null || !seesWorkspace(request, key.record.workspaceId)) throw noSuchKey()
  request.keyId = key.record.id
  requireCounts(usage)
  const range = readRange(query, clock.wallMs())
  const points = await usage.queries.readKey(key.record, range)
  return usageJson(range, points, await usage.limits.ofKey(key.record))
}

/** @returns null: all */
function readListed(workspaceId: string | undefined, request: FastifyRequest): readonly string[] | null {
  if (workspaceId === undefined) return allowedWorkspaces(requirePrincipal(request))
  if (!isWorkspaceId(workspaceId)) throw invalidField('workspaceId', WORKSPACE_ID_EXPECTED)
  if (!seesWorkspace(request, workspaceId)) throw new ApiError('not_found', 'No such workspace')
  return [workspaceId]
}

function requireCounts({ stores }: Usage): void {
  if (!stores.counts) throw notStored('Counts and refusals', 'usage.enabled')
}

function requireRefusals(usage: Usage): void {
  requireCounts(usage)
  if (!usage.stores.refusals) throw notStored('Refusals', 'refusals.enabled')
}

function notStored(what: string, setting: string): ApiError {
  return new ApiError('usage_disabled', `${what} are not kept: the setting ${setting} is false`)
}

function readRange(query: RangeQuery, nowMs: number): UsageRange {
  const parsed = parseUsageRange(query, nowMs)
  if (!parsed.ok) throw invalidField(parsed.field, parsed.expected)
  return parsed.range
}

function usageJson(range: UsageRange, points: readonly UsagePoint[], limits: LimitsInUse): UsageResponse {
  const { step, from, until } = range
  return {
    step,
    from: toInstant(bucketStartMs(step, from)),
    to: toInstant(bucketStartMs(step, until)),
    usage: points.map(({ atMs, requests: all, byCode, byRoute }) => {
      return { at: toInstant(atMs), requests: all, byCode: { ...byCode }, byRoute: { ...byRoute } }
    }),
    windows: windowsJson(limits),
  }
}

function readRefusalsPage(query: PageQuery) {
  const { limit: most, afterId } = readPage(query)
  return { limit: most, after: afterId === null ? null : readRefusalCursor(afterId) }
}

function refusalsJson({ refusals, sampled, nextAfter }: RefusalPage) {
  return listJson({ refusals: refusals.map(refusalJson), sampled }, refusalCursor(nextAfter))
}

function refusalJson({ workspaceId, atMs, route, code, reason, keyId, requestId, address }: Refusal) {
  return { at: toInstant(atMs), workspaceId, route, code, reason, keyId, requestId, address }
}

function windowsJson({ plan, regions }: LimitsInUse): Static<typeof limitWindow>[] {
  return regions.flatMap(({ region, windows }) =>
    windows.map(({ policy, remaining, resetsAtMs }) => {
      const { name, per, requests: most } = policy
      const resetsAt = resetsAtMs === null ? null : toInstant(resetsAtMs)
      return { policy: name, plan, per, region, limit: most, remaining, resetsAt }
    }),
  )
}
