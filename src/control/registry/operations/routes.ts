import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Clock } from '../../../domain/clock.ts'
import { isWorkspaceId, type KeyRecord, keyState } from '../../../domain/key-record.ts'
import { toRecordJson } from '../../../domain/wire.ts'
import type { Metrics } from '../../../observability/metrics.ts'
import {
  EXPECTED,
  type IssueBody,
  issueBody,
  listQuery,
  type PageQuery,
  type RotateBody,
  revokeBody,
  rotateBody,
  type WaitQuery,
  waitQuery,
} from '../../http/admin-schemas.ts'
import { ApiError, invalidField } from '../../http/api-error.ts'
import { askedBy } from '../../http/asked-by.ts'
import type { Call } from '../../http/calls.ts'
import { maySee } from '../../sign-in/person.ts'
import type { Registry } from '../registry.ts'
import { issueKey } from './issue.ts'
import type { Done, Refusal } from './operation.ts'
import { createOperationCount } from './operation-count.ts'
import { answeredRevocation, followRevocation } from './revocation.ts'
import { revokeKey } from './revoke.ts'
import { rotateKey } from './rotate.ts'

const WORKSPACE_KEYS = '/workspaces/:workspaceId/keys'
const KEY = '/keys/:keyId'
const KEY_ID = /^key_[0-9A-HJKMNP-TV-Z]{26}$/
const DEFAULT_PAGE_SIZE = 50

/** The admin API on keys, without its prefix. */
export function keyCalls(registry: Registry, metrics: Metrics): Call[] {
  const count = createOperationCount(metrics)
  return [
    {
      method: 'POST',
      url: WORKSPACE_KEYS,
      operation: 'issue',
      forPeople: true,
      schema: { body: issueBody },
      handle: async (request, reply) => {
        const workspaceId = workspaceIdOf(request)
        // The schema of the route has shown the body to be this.
        const body = request.body as IssueBody
        const result = await count('issue', () => issueKey(registry, body, workspaceId, askedBy(request)))
        const { record, secret } = doneOf(result, request, reply)
        const key = answeredRecord(record, registry.clock, null)
        return reply.code(201).send({ key, secret: secret?.reveal() ?? null })
      },
    },
    {
      method: 'POST',
      url: `${KEY}/rotate`,
      operation: 'rotate',
      forPeople: true,
      schema: { body: rotateBody, querystring: waitQuery },
      handle: async (request, reply) => {
        const id = await ownKeyIdOf(registry, request)
        // The schema of the route has shown the body to be this.
        const body = (request.body as RotateBody) ?? {}
        const result = await count('rotate', () => rotateKey(registry, id, body, askedBy(request)))
        const done = doneOf(result, request, reply)
        return reply.code(201).send(await answeredRotation(registry, done, isToWait(request)))
      },
    },
    {
      method: 'POST',
      url: `${KEY}/revoke`,
      operation: 'revoke',
      forPeople: true,
      schema: { body: revokeBody, querystring: waitQuery },
      handle: async (request, reply) => {
        const id = await ownKeyIdOf(registry, request)
        const result = await count('revoke', () => revokeKey(registry, id, askedBy(request)))
        const done = doneOf(result, request, reply)
        const revocation = await followRevocation(registry, done, isToWait(request))
        return { key: await withUse(registry, done.record), ...answeredRevocation(revocation) }
      },
    },
    {
      method: 'GET',
      url: WORKSPACE_KEYS,
      operation: 'list',
      forPeople: true,
      schema: { querystring: listQuery },
      handle: request => list(registry, request),
    },
    { method: 'GET', url: KEY, operation: 'get', forPeople: true, handle: request => get(registry, request) },
  ]
}

/** What it says of announcements and gateways is about the old key. */
async function answeredRotation(registry: Registry, done: Done, wait: boolean): Promise<unknown> {
  const { record, secret, replaced } = done
  const key = answeredRecord(record, registry.clock, null)
  const revocation = await followRevocation(registry, done, wait)
  return {
    key,
    secret: secret?.reveal() ?? null,
    replaced: replaced === null ? null : await withUse(registry, replaced.record),
    ...answeredRevocation(revocation),
  }
}

/** @param request of a route whose schema has shown the query to be this */
function isToWait({ query }: FastifyRequest): boolean {
  return (query as WaitQuery).wait === '1'
}

async function list({ repository, clock }: Registry, request: FastifyRequest): Promise<unknown> {
  const { keys, nextAfterId } = await repository.list(pageQuestionOf(request))
  const uses = await repository.lastUses(keys.map(key => key.record.id))
  const records = keys.map(({ record }) => answeredRecord(record, clock, uses.get(record.id) ?? null))
  return nextAfterId === null ? { keys: records } : { keys: records, cursor: nextAfterId }
}

async function get(registry: Registry, request: FastifyRequest): Promise<unknown> {
  const key = await registry.repository.findById(keyIdOf(request))
  if (key === null || !isThereFor(request, key.record.workspaceId)) throw unknownKey()
  request.keyId = key.record.id
  return { key: await withUse(registry, key.record) }
}

async function withUse({ repository, clock }: Registry, record: KeyRecord) {
  const uses = await repository.lastUses([record.id])
  return answeredRecord(record, clock, uses.get(record.id) ?? null)
}

function answeredRecord(record: KeyRecord, clock: Clock, lastUsedAtMs: number | null) {
  const lastUsedAt = lastUsedAtMs === null ? null : new Date(lastUsedAtMs).toISOString()
  return { ...toRecordJson(record), state: keyState(record, clock.wallMs()), lastUsedAt }
}

/** @throws where the operation was refused */
function doneOf(result: Done | Refusal, request: FastifyRequest, reply: FastifyReply): Done {
  if (result.kind !== 'done') throw explainRefusal(result)
  request.keyId = result.record.id
  if (result.replayed) void reply.header('idempotency-replayed', 'true')
  return result
}

function explainRefusal(refusal: Refusal): ApiError {
  switch (refusal.kind) {
    case 'invalid':
      return invalidField(refusal.field, refusal.expected)
    case 'unknown_key':
      return unknownKey()
    case 'not_active':
      return new ApiError('conflict', `Only an active key can be rotated; this one is ${refusal.state}`)
    case 'other_request':
      return new ApiError('idempotency_mismatch', 'This Idempotency-Key was used for another request')
  }
}

/** @param request of a route whose schema has shown the query to be that of a page */
export function pageQuestionOf(request: FastifyRequest) {
  const workspaceId = workspaceIdOf(request)
  const { limit, cursor } = request.query as PageQuery
  return { workspaceId, limit: Number(limit ?? DEFAULT_PAGE_SIZE), afterId: cursor ?? null }
}

function workspaceIdOf(request: FastifyRequest): string {
  const workspaceId = parameterOf(request, 'workspaceId')
  if (!isWorkspaceId(workspaceId)) throw invalidField('workspaceId', EXPECTED['workspaceId'] ?? '')
  if (!isThereFor(request, workspaceId)) throw new ApiError('not_found', 'There is no such workspace')
  return workspaceId
}

/** Programs see every workspace. */
function isThereFor({ person }: FastifyRequest, workspaceId: string): boolean {
  return person === null || maySee(person, workspaceId)
}

/**
 * The id of a key that is there for whoever asks. One of another workspace is refused before anything else is said of the
 * request, in the words for an id of no key. (A key never changes its workspace: what holds here holds a moment later.)
 */
async function ownKeyIdOf({ repository }: Registry, request: FastifyRequest): Promise<string> {
  const id = keyIdOf(request)
  if (request.person === null) return id
  const key = await repository.findById(id)
  if (key === null || !isThereFor(request, key.record.workspaceId)) throw unknownKey()
  return id
}

/** What is no id of ours is the id of no key, and never gets as far as the database. */
function keyIdOf(request: FastifyRequest): string {
  const keyId = parameterOf(request, 'keyId')
  if (!KEY_ID.test(keyId)) throw unknownKey()
  return keyId
}

function parameterOf(request: FastifyRequest, name: 'workspaceId' | 'keyId'): string {
  // Paths without a schema: the router gives text under each name that the path has.
  return (request.params as Record<string, string>)[name] ?? ''
}

function unknownKey(): ApiError {
  return new ApiError('not_found', 'There is no such key')
}
