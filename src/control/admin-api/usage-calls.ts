import type { FastifyRequest } from 'fastify'
import type { Static } from 'typebox'
import { ApiError, invalidField } from '../http/api-error.ts'
import type { AdminCall } from '../http/calls.ts'
import { seesWorkspace } from '../http/request-context.ts'
import type { Registry } from '../registry/registry.ts'
import type { Usage } from '../usage/create-usage.ts'
import type { RefusalPosition } from '../usage/refusal-rows.ts'
import type { UsagePoint } from '../usage/usage-points.ts'
import { msOf, parseUsageRange, type UsageRange } from '../usage/usage-range.ts'
import type { Refusal } from '../usage/usage-report.ts'
import { listJson } from './key-json.ts'
import { DEFAULT_PAGE_SIZE, keyIdOf, noSuchKey, workspaceIdOf } from './request-parameters.ts'
import {
  type RefusalsQuery,
  type refusalsAnswer,
  refusalsQuery,
  type UsageQuery,
  type usageAnswer,
  usageQuery,
} from './usage-schemas.ts'

type UsageAnswer = Static<typeof usageAnswer>

/** The admin API on counts and refusals, without its prefix. */
export function usageCalls(registry: Registry, usage: Usage): AdminCall[] {
  const call = { method: 'GET', permission: 'keys:read', workspaces: 'own' } as const
  return [
    {
      ...call,
      url: '/keys/:keyId/usage',
      operation: 'key_usage',
      schema: { querystring: usageQuery },
      handle: request => usageOfKey(registry, usage, request),
    },
    {
      ...call,
      url: '/workspaces/:workspaceId/usage',
      operation: 'workspace_usage',
      schema: { querystring: usageQuery },
      handle: request => usageOfWorkspace(registry, usage, request),
    },
    {
      ...call,
      url: '/workspaces/:workspaceId/refusals',
      operation: 'refusals',
      schema: { querystring: refusalsQuery },
      handle: request => refusalsOf(usage, request),
    },
  ]
}

async function usageOfKey(
  { repository, clock }: Registry,
  { keeps, queries }: Usage,
  request: FastifyRequest,
): Promise<UsageAnswer> {
  const key = await repository.findById(keyIdOf(request))
  if (key === null || !seesWorkspace(request, key.record.workspaceId)) throw noSuchKey()
  request.keyId = key.record.id
  if (!keeps.counts) throw notKept('Counts', 'usage.enabled')
  const range = readRange(request, clock.wallMs())
  return usageJson(range, await queries.usageOfKey(key.record, range))
}

async function usageOfWorkspace(
  { clock }: Registry,
  { keeps, queries }: Usage,
  request: FastifyRequest,
): Promise<UsageAnswer> {
  const workspaceId = workspaceIdOf(request)
  if (!keeps.counts) throw notKept('Counts', 'usage.enabled')
  const range = readRange(request, clock.wallMs())
  return usageJson(range, await queries.usageOfWorkspace(workspaceId, range))
}

async function refusalsOf(
  { keeps, queries }: Usage,
  request: FastifyRequest,
): Promise<Static<typeof refusalsAnswer>> {
  const workspaceId = workspaceIdOf(request)
  if (!keeps.refusals) throw notKept('Refusals', keeps.counts ? 'refusals.enabled' : 'usage.enabled')
  // The route's schema has validated the query.
  const { limit, cursor } = request.query as RefusalsQuery
  const { refusals, sampled, nextAfter } = await queries.listRefusals({
    workspaceId,
    limit: Number(limit ?? DEFAULT_PAGE_SIZE),
    after: cursor === undefined ? null : positionOf(cursor),
  })
  return listJson(
    { refusals: refusals.map(refusalJson), sampled },
    nextAfter === null ? null : `${nextAfter.atMs}.${nextAfter.id}`,
  )
}

function readRange(request: FastifyRequest, nowMs: number): UsageRange {
  // The route's schema has validated the types.
  const parsed = parseUsageRange(request.query as UsageQuery, nowMs)
  if (!parsed.ok) throw invalidField(parsed.field, parsed.expected)
  return parsed.range
}

function notKept(what: string, setting: string): ApiError {
  return new ApiError('usage_disabled', `${what} are not kept: the setting ${setting} is false`)
}

function usageJson(range: UsageRange, points: readonly UsagePoint[]): UsageAnswer {
  const { step, from, until } = range
  return {
    step,
    from: instantOf(msOf(step, from)),
    to: instantOf(msOf(step, until)),
    usage: points.map(({ atMs, ...counts }) => ({ at: instantOf(atMs), ...counts })),
  }
}

function refusalJson({ atMs, route, code, reason, keyId, requestId, address }: Refusal) {
  return { at: instantOf(atMs), route, code, reason, keyId, requestId, address }
}

function instantOf(ms: number): string {
  return new Date(ms).toISOString()
}

/** @param cursor in the form that the schema requires */
function positionOf(cursor: string): RefusalPosition {
  const dot = cursor.indexOf('.')
  return { atMs: Number(cursor.slice(0, dot)), id: cursor.slice(dot + 1) }
}
