import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Clock } from '../../domain/clock.ts'
import { type KeyRecord, keyState } from '../../domain/key/key-record.ts'
import { toRecordJson } from '../../domain/wire.ts'
import type { Metrics } from '../../observability/metrics/metrics.ts'
import { ApiError, invalidField } from '../http/api-error.ts'
import type { AdminCall } from '../http/calls.ts'
import { readRequestContext, seesWorkspace } from '../http/request-context.ts'
import { issueKey } from '../registry/operations/issue.ts'
import { createOperationCounter } from '../registry/operations/operation-counter.ts'
import {
  type RevocationProgress,
  readRevocationProgress,
} from '../registry/operations/revocation-progress.ts'
import { revokeKey } from '../registry/operations/revoke.ts'
import { rotateKey } from '../registry/operations/rotate.ts'
import type { OperationRefusal, OperationSuccess } from '../registry/operations/run-operation.ts'
import type { Registry } from '../registry/registry.ts'
import {
  type IssueBody,
  issueBody,
  listQuery,
  type RotateBody,
  revokeBody,
  rotateBody,
  type WaitQuery,
  waitQuery,
} from './admin-schemas.ts'
import { keyIdOf, noSuchKey, readPageOptions, visibleKeyIdOf, workspaceIdOf } from './request-parameters.ts'

const WORKSPACE_KEYS = '/workspaces/:workspaceId/keys'
const KEY = '/keys/:keyId'

type OperationCounter = ReturnType<typeof createOperationCounter>

/** The admin API on keys, without its prefix. */
export function keyCalls(registry: Registry, metrics: Metrics): AdminCall[] {
  const count = createOperationCounter(metrics)
  return [
    issueCall(registry, count),
    rotateCall(registry, count),
    revokeCall(registry, count),
    {
      method: 'GET',
      url: WORKSPACE_KEYS,
      operation: 'list',
      permission: 'keys:read',
      workspaces: 'own',
      schema: { querystring: listQuery },
      handle: request => listKeys(registry, request),
    },
    {
      method: 'GET',
      url: KEY,
      operation: 'get',
      permission: 'keys:read',
      workspaces: 'own',
      handle: request => getKey(registry, request),
    },
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

function revokeCall(registry: Registry, count: OperationCounter): AdminCall {
  return {
    method: 'POST',
    url: `${KEY}/revoke`,
    operation: 'revoke',
    permission: 'keys:write',
    workspaces: 'own',
    schema: { body: revokeBody, querystring: waitQuery },
    handle: async (request, reply) => {
      const id = await visibleKeyIdOf(registry, request)
      const context = readRequestContext(request)
      const result = await count('revoke', () => revokeKey(registry, id, context))
      const success = requireSuccess(result, request, reply)
      const progress = await readRevocationProgress(registry, success, mustWait(request))
      return { key: await keyWithUseJson(registry, success.record), ...revocationJson(progress) }
    },
  }
}

async function listKeys({ repository, clock }: Registry, request: FastifyRequest): Promise<unknown> {
  const { keys, nextAfterId } = await repository.list(readPageOptions(request))
  const uses = await repository.lastUses(keys.map(key => key.record.id))
  const records = keys.map(({ record }) => keyJson(record, clock, uses.get(record.id) ?? null))
  return nextAfterId === null ? { keys: records } : { keys: records, cursor: nextAfterId }
}

async function getKey(registry: Registry, request: FastifyRequest): Promise<unknown> {
  const key = await registry.repository.findById(keyIdOf(request))
  if (key === null || !seesWorkspace(request, key.record.workspaceId)) throw noSuchKey()
  request.keyId = key.record.id
  return { key: await keyWithUseJson(registry, key.record) }
}

/** @param request of a route whose schema has validated the query */
function mustWait({ query }: FastifyRequest): boolean {
  return (query as WaitQuery).wait === '1'
}

/** @throws ApiError if the operation was refused */
function requireSuccess(
  result: OperationSuccess | OperationRefusal,
  request: FastifyRequest,
  reply: FastifyReply,
): OperationSuccess {
  if (result.kind !== 'done') throw toApiError(result)
  request.keyId = result.record.id
  if (result.replayed) void reply.header('idempotency-replayed', 'true')
  return result
}

function toApiError(refusal: OperationRefusal): ApiError {
  switch (refusal.kind) {
    case 'invalid':
      return invalidField(refusal.field, refusal.expected)
    case 'unknown_key':
      return noSuchKey()
    case 'not_active':
      return new ApiError('conflict', `Only an active key can be rotated; this one is ${refusal.state}`)
    case 'other_request':
      return new ApiError(
        'idempotency_mismatch',
        'This Idempotency-Key was used for a different request; use a new one',
      )
  }
}

/** Announcement and gateways are those of the old key. */
async function rotationJson(
  registry: Registry,
  success: OperationSuccess,
  mustWait: boolean,
): Promise<unknown> {
  const { record, secret, replaced } = success
  const progress = await readRevocationProgress(registry, success, mustWait)
  return {
    key: keyJson(record, registry.clock, null),
    secret: secret?.reveal() ?? null,
    replaced: replaced === null ? null : await keyWithUseJson(registry, replaced.record),
    ...revocationJson(progress),
  }
}

async function keyWithUseJson({ repository, clock }: Registry, record: KeyRecord) {
  const uses = await repository.lastUses([record.id])
  return keyJson(record, clock, uses.get(record.id) ?? null)
}

function keyJson(record: KeyRecord, clock: Clock, lastUsedAtMs: number | null) {
  return {
    ...toRecordJson(record),
    state: keyState(record, clock.wallMs()),
    lastUsedAt: instant(lastUsedAtMs),
  }
}

function revocationJson({ announced, committedAtMs, announcedAtMs, gateways }: RevocationProgress) {
  const silent = gateways?.silent.map(({ name, lastSeenAtMs }) => ({
    name,
    lastSeenAt: instant(lastSeenAtMs),
  }))
  return {
    announced,
    committedAt: instant(committedAtMs),
    announcedAt: instant(announcedAtMs),
    gateways: gateways === null ? null : { ...gateways, silent },
  }
}

function instant(ms: number | null): string | null {
  return ms === null ? null : new Date(ms).toISOString()
}
