import type { FastifyReply, FastifyRequest } from 'fastify'
import type { AdminCall, Operation } from '../http/calls.ts'
import { readRequestContext } from '../http/request-context.ts'
import { readChangeProgress } from '../registry/operations/change-progress.ts'
import { editKey } from '../registry/operations/edit.ts'
import { issueKey } from '../registry/operations/issue.ts'
import type { OperationCounter } from '../registry/operations/operation-counter.ts'
import { revokeKey } from '../registry/operations/revoke.ts'
import { rotateKey } from '../registry/operations/rotate.ts'
import type { OperationSuccess } from '../registry/operations/run-operation.ts'
import { resumeKey, suspendKey } from '../registry/operations/suspend.ts'
import type { Registry } from '../registry/registry.ts'
import {
  type EditBody,
  editBody,
  emptyBody,
  type IssueBody,
  issueBody,
  type RotateBody,
  rotateBody,
  waitQuery,
} from './admin-schemas.ts'
import { keyJson, keyWithUseJson, progressJson } from './key-json.ts'
import { readIfMatch, requireSuccess, setVersionTag } from './operation-answer.ts'
import { KEY, mustWait, visibleKeyIdOf, WORKSPACE_KEYS, workspaceIdOf } from './request-parameters.ts'

/** The calls that change one key, without their prefix. */
export function keyOperationCalls(registry: Registry, count: OperationCounter): AdminCall[] {
  return [
    issueCall(registry, count),
    rotateCall(registry, count),
    stepCall(registry, count, 'revoke', revokeKey),
    stepCall(registry, count, 'suspend', suspendKey),
    stepCall(registry, count, 'resume', resumeKey),
    editCall(registry, count),
  ]
}

function issueCall(registry: Registry, count: OperationCounter): AdminCall {
  return {
    method: 'POST',
    url: WORKSPACE_KEYS,
    operation: 'issue',
    permission: 'keys:write',
    workspaces: 'own',
    schema: { body: issueBody },
    handle: async (request, reply) => {
      const workspaceId = workspaceIdOf(request)
      // The route's schema has validated the body.
      const body = request.body as IssueBody
      const context = readRequestContext(request)
      const result = await count('issue', () => issueKey(registry, body, workspaceId, context))
      const { record, secret } = requireSuccess(result, request, reply)
      setVersionTag(reply, record)
      const key = keyJson(record, registry.clock, null)
      return reply.code(201).send({ key, secret: secret?.reveal() ?? null })
    },
  }
}

function rotateCall(registry: Registry, count: OperationCounter): AdminCall {
  return {
    method: 'POST',
    url: `${KEY}/rotate`,
    operation: 'rotate',
    permission: 'keys:write',
    workspaces: 'own',
    schema: { body: rotateBody, querystring: waitQuery },
    handle: async (request, reply) => {
      const id = await visibleKeyIdOf(registry, request)
      // The route's schema has validated the body.
      const body = (request.body as RotateBody) ?? {}
      const context = readRequestContext(request)
      const result = await count('rotate', () => rotateKey(registry, id, body, context))
      const success = requireSuccess(result, request, reply)
      return reply.code(201).send(await rotationJson(registry, success, mustWait(request)))
    },
  }
}

/** A call without a body that changes the state of a key. */
function stepCall(
  registry: Registry,
  count: OperationCounter,
  operation: Operation & ('revoke' | 'suspend' | 'resume'),
  change: typeof revokeKey,
): AdminCall {
  return {
    method: 'POST',
    url: `${KEY}/${operation}`,
    operation,
    permission: 'keys:write',
    workspaces: 'own',
    schema: { body: emptyBody, querystring: waitQuery },
    handle: async (request, reply) => {
      const id = await visibleKeyIdOf(registry, request)
      const context = readRequestContext(request)
      const result = await count(operation, () => change(registry, id, context))
      return answerChange(registry, requireSuccess(result, request, reply), request, reply)
    },
  }
}

/** If-Match makes a retry safe: an Idempotency-Key has no effect. */
function editCall(registry: Registry, count: OperationCounter): AdminCall {
  return {
    method: 'PATCH',
    url: KEY,
    operation: 'edit',
    permission: 'keys:write',
    workspaces: 'own',
    schema: { body: editBody, querystring: waitQuery },
    handle: async (request, reply) => {
      const id = await visibleKeyIdOf(registry, request)
      const version = readIfMatch(request)
      // The route's schema has validated the body.
      const edit = { request: request.body as EditBody, version }
      const context = { ...readRequestContext(request), idempotency: null }
      const result = await count('edit', () => editKey(registry, id, edit, context))
      return answerChange(registry, requireSuccess(result, request, reply), request, reply)
    },
  }
}

async function answerChange(
  registry: Registry,
  success: OperationSuccess,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<unknown> {
  const progress = await readChangeProgress(registry, success, mustWait(request))
  setVersionTag(reply, success.record)
  return { key: await keyWithUseJson(registry, success.record), ...progressJson(progress) }
}

/** Announcement and gateways are those of the old key. */
async function rotationJson(
  registry: Registry,
  success: OperationSuccess,
  mustWait: boolean,
): Promise<unknown> {
  const { record, secret, replaced } = success
  const progress = await readChangeProgress(registry, success, mustWait)
  return {
    key: keyJson(record, registry.clock, null),
    secret: secret?.reveal() ?? null,
    replaced: replaced === null ? null : await keyWithUseJson(registry, replaced.record),
    ...progressJson(progress),
  }
}
