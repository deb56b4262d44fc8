import { type Static, Type } from 'typebox'
import type { Clock } from '../../domain/clock.ts'
import { toInstant } from '../../domain/form/instant.ts'
import { type KeyRecord, WORKSPACE_ID_EXPECTED } from '../../domain/key/key-record.ts'
import { invalidField } from '../platform/http/api-error.ts'
import { type AdminCall, type CheckedRequest, declareCalls } from '../platform/http/calls.ts'
import {
  cursorField,
  fields,
  instant,
  instantParameter,
  keyIdParameter,
  limit,
  limitWindow,
  listJson,
  pageSchema,
  parameter,
  usagePoint,
} from '../platform/http/fields.ts'
import { nearLimit, refusal } from '../platform/http/items.ts'
import {
  noSuchKey,
  readConditions,
  readKeyId,
  readPage,
  readWorkspaceId,
  readWorkspaces,
  seesWorkspace,
} from '../platform/http/request-context.ts'
import { sendJsonLines } from '../platform/http/send-file.ts'
import { type LimitsInUse, NEAR_LIMIT_CURSOR, nearLimitJson } from './read-limits.ts'
import { MAX_REQUEST_ID, REFUSAL_CODES, REFUSAL_CURSOR, type RefusalFilter } from './read-refusals.ts'
import {
  bucketStartMs,
  parseUsageRange,
  requireCounts,
  requireRefusals,
  type Usage,
  type UsagePoint,
  type UsageRange,
} from './read-usage.ts'
import type { Refusal } from './reports/check-report.ts'

export interface UsageCallParts {
  readonly usage: Usage
  readonly keys: { findById(id: string): Promise<{ readonly record: KeyRecord } | null> }
  readonly plans: { findPlan(workspaceId: string): Promise<string | null> }
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

const usageResponse = Type.Object(
  {
    step: Type.Union([...STEPS]),
    from: instant,
    to: instant,
    usage: Type.Array(usagePoint, { description: 'An entry for each hour or day, also without requests' }),
    windows: Type.Array(limitWindow, {
      description:
        'What is left of each rate limit; of a workspace, of those that count all its keys. One for each region',
    }),
  },
  { title: 'Usage' },
)
type UsageResponse = Static<typeof usageResponse>

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

const refusals = Type.Object({
  ...pageSchema('refusals', refusal).properties,
  sampled: Type.Boolean({ description: 'Whether a gateway left some out' }),
})

const READING = { method: 'GET', permission: 'keys:read', workspaces: 'own' } as const

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
        workspaceIds: readWorkspaces(request, workspaceId),
        limit: most,
        after: afterId,
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
    handle: async ({ usage, plans, clock }, { request, query }) => {
      const workspaceId = readWorkspaceId(request)
      requireCounts(usage)
      const range = readRange(query, clock.wallMs())
      const { points } = await usage.queries.readWorkspace(workspaceId, range)
      const limits = await usage.limits.ofWorkspace(workspaceId, await plans.findPlan(workspaceId))
      return usageJson(range, points, limits)
    },
  }),
  adminCall({
    ...READING,
    id: 'listRefusals',
    url: '/workspaces/:workspaceId/refusals',
    operation: 'refusals',
    summary: 'The last requests with keys of a workspace that were not served, newest first',
    query: search,
    response: refusals,
    errors: ['not_found', 'usage_disabled'],
    handle: async ({ usage }, { request, query }) => searchPage(usage, readWorkspaceId(request), query),
  }),
  adminCall({
    ...READING,
    workspaces: 'all',
    id: 'searchRefusals',
    url: '/refusals',
    operation: 'refusals',
    summary: 'The last requests with keys of all workspaces that were not served, newest first',
    query: search,
    response: refusals,
    errors: ['usage_disabled'],
    handle: async ({ usage }, { query }) => searchPage(usage, null, query),
  }),
  adminCall({
    ...READING,
    workspaces: 'all',
    id: 'exportRefusals',
    url: '/refusals/export',
    operation: 'refusals_export',
    summary: 'Every request with a key of any workspace that was not served and is kept, newest first',
    query: conditions,
    format: 'lines',
    response: refusal,
    errors: ['usage_disabled'],
    handle: async ({ usage }, { reply, query }) => {
      const filter = readFilter(query)
      requireRefusals(usage)
      const readParts = () => usage.queries.readRefusals({ filter, workspaceId: null })
      return sendJsonLines(reply, readParts, refusalJson)
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
  const { points } = await usage.queries.readKey(key.record, range)
  return usageJson(range, points, await usage.limits.ofKey(key.record))
}

function readRange(query: RangeQuery, nowMs: number): UsageRange<'hour' | 'day'> {
  const parsed = parseUsageRange(query, nowMs)
  if (!parsed.ok) throw invalidField(parsed.field, parsed.expected)
  return parsed.range
}

function usageJson(
  range: UsageRange<'hour' | 'day'>,
  points: readonly UsagePoint[],
  limits: LimitsInUse,
): UsageResponse {
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

function windowsJson({ plan, regions }: LimitsInUse): Static<typeof limitWindow>[] {
  return regions.flatMap(({ region, windows }) =>
    windows.map(({ policy, remaining, resetsAtMs }) => {
      const { name, per, requests: most } = policy
      return { policy: name, plan, per, region, limit: most, remaining, resetsAt: toInstant(resetsAtMs) }
    }),
  )
}

/** @param workspaceId null for all */
async function searchPage(usage: Usage, workspaceId: string | null, sent: Static<typeof search>) {
  const { limit: most, afterId: after } = readPage(sent)
  const filter = readFilter(sent)
  requireRefusals(usage)
  const query = { filter, workspaceId, limit: most, after }
  const { refusals: found, sampled, nextAfter } = await usage.queries.searchRefusals(query)
  return listJson({ refusals: found.map(refusalJson), sampled }, nextAfter)
}

function readFilter({ code, requestId, ...more }: Static<typeof conditions>): RefusalFilter {
  if (code !== undefined && !REFUSAL_CODES.includes(code)) throw invalidField('code', CODE_EXPECTED)
  return { code, requestId, ...readConditions(more) }
}

/** As every answer and file has it. */
export function refusalJson({ workspaceId, atMs, route, code, reason, keyId, requestId, address }: Refusal) {
  return { at: toInstant(atMs), workspaceId, route, code, reason, keyId, requestId, address }
}
