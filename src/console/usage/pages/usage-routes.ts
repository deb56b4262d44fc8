import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { holdsKeyForm } from '../../../domain/key/secret.ts'
import { plainPasted } from '../../../domain/pasted-text.ts'
import { textField } from '../../platform/html/form-fields.ts'
import { SHOWS } from '../../platform/html/guards.ts'
import { frameOf, notFound, queryOf, sendPage, workspaceOf } from '../../platform/html/page-request.ts'
import { ALL_USAGE, FIND_KEY, WORKSPACES } from '../../platform/html/paths.ts'
import { personOfRequest } from '../../platform/html/signed-in.ts'
import { REFUSALS_KEPT } from '../fold-reports.ts'
import { allUsagePage } from './all-usage-page.ts'
import { readChartRange } from './chart-range.ts'
import { noRefusalsPage, refusalsPage } from './refusals-page.ts'
import { usagePage } from './usage-page.ts'
import type { UsagePageParts } from './usage-reading.ts'
import { allUsageOf, workspaceUsageOf } from './usage-reading.ts'

const MAX_REQUEST_ID = 128

/** Usage and rejections of a workspace, and usage of all. */
export function usageRoutes(scope: FastifyInstance, sources: UsagePageParts): void {
  scope.get(`${WORKSPACES}/:workspaceId/usage`, SHOWS, (request, reply) => showUsage(sources, request, reply))
  scope.get(`${WORKSPACES}/:workspaceId/refusals`, SHOWS, (request, reply) =>
    showRefusals(sources, request, reply),
  )
  scope.get(ALL_USAGE, SHOWS, async (request, reply) => {
    if (!personOfRequest(request).administrator) throw notFound()
    const usage = await allUsageOf(sources)
    const { clock } = sources.registry
    return sendPage(reply, allUsagePage(frameOf(request, reply, { workspaceId: null, clock }), usage))
  })
}

async function showUsage(
  sources: UsagePageParts,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const { repository, clock } = sources.registry
  const workspaceId = workspaceOf(request)
  const [usage, unused] = await Promise.all([
    workspaceUsageOf(sources, workspaceId, readChartRange(queryOf(request))),
    repository.countUnused(workspaceId),
  ])
  const frame = frameOf(request, reply, { workspaceId, clock })
  return sendPage(reply, usagePage(frame, { workspaceId, usage, unused }))
}

async function showRefusals(
  { registry, usage }: UsagePageParts,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const { repository, clock, keyPrefix } = registry
  const workspaceId = workspaceOf(request)
  const frame = frameOf(request, reply, { workspaceId, clock })
  const { counts, refusals: areStored } = usage.stores
  if (!areStored) return sendPage(reply, noRefusalsPage(frame, counts ? 'refusals.enabled' : 'usage.enabled'))
  const requestId = plainPasted(textField(queryOf(request), 'request')).slice(0, MAX_REQUEST_ID)
  // A redirect leaves no entry in the browser's history.
  if (holdsKeyForm(requestId, keyPrefix)) return reply.redirect(FIND_KEY, 303)
  const kept = await usage.queries.listRefusals({ workspaceId, limit: REFUSALS_KEPT, after: null })
  const refusals = kept.refusals.filter(refusal => requestId === '' || refusal.requestId === requestId)
  const keys = await repository.findByIds([...new Set(refusals.map(({ keyId }) => keyId))])
  return sendPage(
    reply,
    refusalsPage(frame, { workspaceId, requestId, refusals, sampled: kept.sampled, keys }),
  )
}
