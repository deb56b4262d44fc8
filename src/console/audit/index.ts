import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Registry } from '../keys/registry.ts'
import type { Capability } from '../platform/capability.ts'
import { SHOWS } from '../platform/html/guards.ts'
import { cursorOf, frameOf, sendPage, workspaceOf } from '../platform/html/page-request.ts'
import { WORKSPACES } from '../platform/html/paths.ts'
import { bindCalls } from '../platform/http/admin-call.ts'
import { AUDIT_CALLS } from './audit-calls.ts'
import { auditPage } from './audit-page.ts'

const PAGE_SIZE = 50

/** Who did what to which key. */
export function createAudit(registry: Registry): Capability {
  return {
    calls: bindCalls(AUDIT_CALLS, { registry }),
    registerPages(scope) {
      scope.get(`${WORKSPACES}/:workspaceId/audit`, SHOWS, (request, reply) =>
        showAudit(registry, request, reply),
      )
    },
  }
}

async function showAudit(
  registry: Registry,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const workspaceId = workspaceOf(request)
  const cursor = cursorOf(request)
  const options = { workspaceId, limit: PAGE_SIZE, afterId: cursor }
  const { entries, nextAfterId } = await registry.repository.listAudit(options)
  const frame = frameOf(request, reply, { workspaceId, clock: registry.clock })
  const keys = await registry.repository.findByIds(entries.flatMap(({ keyId }) => keyId ?? []))
  const paging = { nextCursor: nextAfterId, isFirstPage: cursor === null }
  return sendPage(reply, auditPage(frame, { workspaceId, entries, keys, ...paging }))
}
