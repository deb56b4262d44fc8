import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Clock } from '../../domain/clock.ts'
import { isWorkspaceId, type KeyRecord, keyState } from '../../domain/key-record.ts'
import { toRecordJson } from '../../domain/wire.ts'
import type { Metrics } from '../../observability/metrics.ts'
import {
  EXPECTED,
  emptyBody,
  type IssueBody,
  issueBody,
  type ListQuery,
  listQuery,
} from '../http/admin-schemas.ts'
import { ApiError, invalidField } from '../http/api-error.ts'
import type { Call } from '../http/calls.ts'
import { issueKey } from './issue.ts'
import { createOperationCount } from './operation-count.ts'
import type { Registry } from './registry.ts'
import { revokeKey } from './revoke.ts'

const WORKSPACE_KEYS = '/workspaces/:workspaceId/keys'
const KEY = '/keys/:keyId'
const DEFAULT_PAGE_SIZE = 50
/** Who acted, where a program did. People will have names of their own. */
const PROGRAM = 'admin-token'

/** The admin API on keys, without its prefix. */
export function adminCalls(registry: Registry, metrics: Metrics): Call[] {
  const count = createOperationCount(metrics)
  const issued = count<FastifyReply>('issue', () => 'ok')
  const revoked = count<{ changed: boolean }>('revoke', ({ changed }) => (changed ? 'ok' : 'unchanged'))
  return [
    {
      method: 'POST',
      url: WORKSPACE_KEYS,
      operation: 'issue',
      schema: { body: issueBody },
      handle: (request, reply) => issued(() => issue(registry, request, reply)),
    },
    {
      method: 'GET',
      url: WORKSPACE_KEYS,
      operation: 'list',
      schema: { querystring: listQuery },
      handle: request => list(registry, request),
    },
    { method: 'GET', url: KEY, operation: 'get', handle: request => get(registry, request) },
    {
      method: 'POST',
      url: `${KEY}/revoke`,
      operation: 'revoke',
      schema: { body: emptyBody },
      handle: async request => {
        const { record, announced } = await revoked(() => revoke(registry, request))
        return { key: answeredRecord(record, registry.clock), announced }
      },
    },
  ]
}

async function issue(
  registry: Registry,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const workspaceId = workspaceIdOf(request)
  // The schema of the route has shown the body to be this.
  const issued = await issueKey(registry, request.body as IssueBody, { workspaceId, actor: PROGRAM })
  if (!issued.ok) throw invalidField(issued.field, issued.expected)
  const { record, secret } = issued.value
  request.keyId = record.id
  return reply.code(201).send({ key: answeredRecord(record, registry.clock), secret: secret.reveal() })
}

async function list({ repository, clock }: Registry, request: FastifyRequest): Promise<unknown> {
  const workspaceId = workspaceIdOf(request)
  // The schema of the route has shown the query to be this.
  const { limit, cursor } = request.query as ListQuery
  const question = { workspaceId, limit: Number(limit ?? DEFAULT_PAGE_SIZE), afterId: cursor ?? null }
  const { keys, nextAfterId } = await repository.list(question)
  const page = { keys: keys.map(key => answeredRecord(key.record, clock)) }
  return nextAfterId === null ? page : { ...page, cursor: nextAfterId }
}

async function get({ repository, clock }: Registry, request: FastifyRequest): Promise<unknown> {
  const key = await repository.findById(parameterOf(request, 'keyId'))
  if (key === null) throw unknownKey()
  request.keyId = key.record.id
  return { key: answeredRecord(key.record, clock) }
}

async function revoke(registry: Registry, request: FastifyRequest) {
  const revocation = await revokeKey(registry, parameterOf(request, 'keyId'))
  if (revocation === null) throw unknownKey()
  request.keyId = revocation.record.id
  return revocation
}

function answeredRecord(record: KeyRecord, clock: Clock) {
  return { ...toRecordJson(record), state: keyState(record, clock.wallMs()), lastUsedAt: null }
}

function workspaceIdOf(request: FastifyRequest): string {
  const workspaceId = parameterOf(request, 'workspaceId')
  if (!isWorkspaceId(workspaceId)) throw invalidField('workspaceId', EXPECTED['workspaceId'] ?? '')
  return workspaceId
}

function parameterOf(request: FastifyRequest, name: 'workspaceId' | 'keyId'): string {
  // Paths without a schema: the router gives text under each name that the path has.
  return (request.params as Record<string, string>)[name] ?? ''
}

function unknownKey(): ApiError {
  return new ApiError('not_found', 'There is no such key')
}
