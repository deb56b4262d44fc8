import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { FinalState, KeyState } from '../../../domain/key/key-record.ts'
import { CHANGE_FORMS, CHANGES } from '../../platform/html/guards.ts'
import { frameOf, notFound, sendPage } from '../../platform/html/page-request.ts'
import { keyPath, WORKSPACES } from '../../platform/html/paths.ts'
import { problemPage } from '../../platform/html/problem-page.ts'
import { callerOf } from '../../platform/http/request-context.ts'
import { recentUseOf } from '../../usage/index.ts'
import { readChangeProgress } from '../operations/change-progress.ts'
import { revokeKey } from '../operations/revoke.ts'
import { resumeKey, suspendKey } from '../operations/suspend.ts'
import type { KeyPageParts } from './key-page-parts.ts'
import { keyOf, viewAfter, viewOf } from './key-request.ts'
import { KEY_STEPS, type KeyStep, stepDonePage, stepPage } from './step-page.ts'

const OPERATIONS = {
  revoke: { operation: 'revoke', change: revokeKey, from: ['active', 'retiring', 'suspended'] },
  finish: { operation: 'revoke', change: revokeKey, from: ['retiring'] },
  suspend: { operation: 'suspend', change: suspendKey, from: ['active', 'retiring'] },
  resume: { operation: 'resume', change: resumeKey, from: ['suspended'] },
} as const satisfies Record<KeyStep, { readonly from: readonly KeyState[]; [part: string]: unknown }>

export function stepRoutes(scope: FastifyInstance, sources: KeyPageParts): void {
  for (const step of KEY_STEPS) {
    const path = `${WORKSPACES}/:workspaceId/keys/:keyId/${step}`
    scope.get(path, CHANGE_FORMS, (request, reply) => showConfirmation(sources, request, reply, step))
    scope.post(path, CHANGES, (request, reply) => change(sources, request, reply, step))
  }
}

/** Redirects if the key is in no state for this step. */
async function showConfirmation(
  sources: KeyPageParts,
  request: FastifyRequest,
  reply: FastifyReply,
  step: KeyStep,
): Promise<FastifyReply> {
  const { registry } = sources
  const { record } = await keyOf(request, registry)
  const { workspaceId, id } = record
  const key = await viewOf(record, registry)
  const from: readonly KeyState[] = OPERATIONS[step].from
  if (!from.includes(key.state)) return reply.redirect(keyPath(workspaceId, id), 303)
  const frame = frameOf(request, reply, { workspaceId, clock: registry.clock })
  const recent = await recentUseOf(sources, record)
  return sendPage(reply, stepPage(frame, { key, step, recent }))
}

/** Idempotent: a second request shows the same page. */
async function change(
  { registry, count }: KeyPageParts,
  request: FastifyRequest,
  reply: FastifyReply,
  step: KeyStep,
): Promise<FastifyReply> {
  const { record } = await keyOf(request, registry)
  const frame = frameOf(request, reply, { workspaceId: record.workspaceId, clock: registry.clock })
  const context = { caller: callerOf(request), idempotency: null }
  const { operation, change } = OPERATIONS[step]
  const before = await viewOf(record, registry)
  const result = await count(operation, () => change(registry, record.id, context))
  if (result.kind === 'final') {
    const problem = { title: 'Key cannot be changed', text: FINAL_TEXTS[result.state], requestId: null }
    return sendPage(reply, problemPage(frame, problem), 409)
  }
  if (result.kind !== 'done') throw notFound()
  const progress = await readChangeProgress(registry, result, true)
  const key = viewAfter(result.record, before, registry)
  return sendPage(reply, stepDonePage(frame, step, { key, changed: result.changed, progress }))
}

export const FINAL_TEXTS: Readonly<Record<FinalState, string>> = {
  expired: 'It has expired, which is final. Issue a new key instead.',
  revoked: 'It was revoked, which is final. Issue a new key instead.',
}
