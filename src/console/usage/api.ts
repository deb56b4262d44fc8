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
  limit,
  limitWindow,
  listJson,
  pageSchema,
  parameter,
  usagePoint,
} from '../platform/http/fields.ts'
import { nearLimit } from '../platform/http/fields.ts'
import {
  noSuchKey,
  readKeyId,
  readPage,
  readWorkspaceId,
  readWorkspaces,
  seesWorkspace,
} from '../platform/http/request-context.ts'
import type { LimitsInUse } from './limit-windows.ts'
import { NEAR_LIMIT_CURSOR, nearLimitJson, readNearLimitCursor } from './near-limits-reader.ts'
import { bucketStartMs, parseUsageRange, type Usage, type UsagePoint, type UsageRange } from './read-usage.ts'
import { REFUSAL_CALLS } from './refusals-api.ts'
import { requireCounts } from './require-stored.ts'

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
        workspaceIds: readWorkspaces(request, workspaceId),
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
    handle: async ({ usage, plans, clock }, { request, query }) => {
      const workspaceId = readWorkspaceId(request)
      requireCounts(usage)
      const range = readRange(query, clock.wallMs())
      const points = await usage.queries.readWorkspace(workspaceId, range)
      const limits = await usage.limits.ofWorkspace(workspaceId, await plans.findPlan(workspaceId))
      return usageJson(range, points, limits)
    },
  }),
  ...REFUSAL_CALLS,
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

function windowsJson({ plan, regions }: LimitsInUse): Static<typeof limitWindow>[] {
  return regions.flatMap(({ region, windows }) =>
    windows.map(({ policy, remaining, resetsAtMs }) => {
      const { name, per, requests: most } = policy
      const resetsAt = resetsAtMs === null ? null : toInstant(resetsAtMs)
      return { policy: name, plan, per, region, limit: most, remaining, resetsAt }
    }),
  )
}
