import type { FastifyReply, FastifyRequest } from 'fastify'
import { type Static, Type } from 'typebox'
import { idPattern } from '../../domain/id-form.ts'
import { PLAN_EXPECTED } from '../../domain/key/key-fields.ts'
import { OVERLAP_EXPECTED } from '../../domain/key/key-life.ts'
import { sees } from '../platform/access/principal.ts'
import { ApiError, invalidField } from '../platform/http/api-error.ts'
import { type AdminCall, declareCalls } from '../platform/http/calls.ts'
import {
  chosenFields,
  cursorField,
  expiresAt,
  expiresInDays,
  fields,
  gateways,
  key as keySchema,
  name,
  noFields,
  optionalFields,
  PROGRESS_FIELDS,
  regions,
  scopes,
  secret as secretSchema,
  type WaitQuery,
  waitQuery,
} from '../platform/http/fields.ts'
import {
  describeCaller,
  noSuchKey,
  otherRequest,
  readKeyId,
  readRequestContext,
  readWorkspaceId,
  requirePrincipal,
  seesWorkspace,
} from '../platform/http/request-context.ts'
import { type BulkContext, type BulkOutcome, revokeAllKeys, setWorkspacePlan } from './bulk-change.ts'
import { bulkProgressJson, progressJson, readChangeProgress } from './operations/change-progress.ts'
import {
  changeState,
  checkEdit,
  editKey,
  issueKey,
  rotateKey,
  type StateStep,
} from './operations/key-operations.ts'
import type {
  OperationRejection,
  OperationResult,
  OperationSuccess,
  Registry,
} from './operations/registry.ts'
import { requirePlanChoice } from './plan-choice.ts'
import { KEY, keyJson, WORKSPACE_KEYS, WORKSPACE_PLAN } from './read-calls.ts'
import { readIfMatch, setVersionTag, versionTag } from './version-tag.ts'

const adminCall = declareCalls<Registry>()

const WRITES = { permission: 'keys:write', workspaces: 'own' } as const
const changedKey = Type.Object({ key: keySchema, ...PROGRESS_FIELDS }, { title: 'KeyChange' })

const ISSUE = adminCall({
  id: 'issueKey',
  method: 'POST',
  url: WORKSPACE_KEYS,
  operation: 'issue',
  ...WRITES,
  summary: 'Issues a key',
  headers: ['Idempotency-Key'],
  body: fields({ name, scopes, ...chosenFields, expiresInDays, expiresAt }),
  status: 201,
  responseHeaders: ['ETag', 'Idempotency-Replayed'],
  response: Type.Object({ key: keySchema, secret: secretSchema }),
  errors: ['not_found', 'idempotency_mismatch'],
  handle: async (registry, { request, reply, body }) => {
    const workspaceId = readWorkspaceId(request)
    requirePlanChoice(request, body.plan)
    const context = readRequestContext(request)
    const result = await issueKey(registry, body, workspaceId, context)
    const { record, secret } = requireSuccess(result, request, reply)
    setVersionTag(reply, record)
    return { key: keyJson(record, registry.clock, null), secret: secret?.reveal() ?? null }
  },
})

const ROTATE = adminCall({
  id: 'rotateKey',
  method: 'POST',
  url: `${KEY}/rotate`,
  operation: 'rotate',
  ...WRITES,
  summary: 'Issues a successor; the old key works until the overlap ends',
  headers: ['Idempotency-Key'],
  query: waitQuery,
  body: optionalFields({
    overlapSeconds: Type.Optional(Type.Number({ description: OVERLAP_EXPECTED })),
    expiresInDays,
    expiresAt,
  }),
  status: 201,
  responseHeaders: ['Idempotency-Replayed'],
  response: Type.Object({
    key: keySchema,
    secret: secretSchema,
    replaced: Type.Union([keySchema, Type.Null()], { description: 'The old key' }),
    ...PROGRESS_FIELDS,
  }),
  errors: ['not_found', 'conflict', 'idempotency_mismatch'],
  handle: async (registry, { request, reply, query, body }) => {
    const id = await readVisibleKeyId(registry, request)
    const context = readRequestContext(request)
    // Before the change: what follows the commit must not fail.
    const lastUsedAtMs = await registry.uses.findLastUse(id)
    const result = await rotateKey(registry, id, body ?? {}, context)
    const success = requireSuccess(result, request, reply)
    const { record, secret, replaced } = success
    // Announcement and gateways are those of the old key.
    const progress = await readChangeProgress(registry, success, mustWait(query))
    return {
      key: keyJson(record, registry.clock, null),
      secret: secret?.reveal() ?? null,
      replaced: replaced === null ? null : keyJson(replaced.record, registry.clock, lastUsedAtMs),
      ...progressJson(progress),
    }
  },
})

/** A call without a body that changes the state of a key. */
function stepCall(operation: StateStep, summary: string): AdminCall<Registry> {
  return adminCall({
    id: `${operation}Key`,
    method: 'POST',
    url: `${KEY}/${operation}`,
    operation,
    ...WRITES,
    summary,
    headers: ['Idempotency-Key'],
    query: waitQuery,
    body: noFields,
    responseHeaders: ['ETag', 'Idempotency-Replayed'],
    response: changedKey,
    errors: ['not_found', ...(operation === 'revoke' ? [] : ['conflict' as const]), 'idempotency_mismatch'],
    handle: async (registry, { request, reply, query }) => {
      const id = await readVisibleKeyId(registry, request)
      const context = readRequestContext(request)
      const lastUsedAtMs = await registry.uses.findLastUse(id)
      const result = await changeState(registry, operation, id, context)
      const success = requireSuccess(result, request, reply)
      return changeResponse(registry, success, { lastUsedAtMs, reply, query })
    },
  })
}

const editBody = fields({ name: Type.Optional(name), ...chosenFields, expiresAt })

/** If-Match makes a retry safe: an Idempotency-Key has no effect. */
const EDIT = adminCall({
  id: 'editKey',
  method: 'PATCH',
  url: KEY,
  operation: 'edit',
  ...WRITES,
  summary: 'Changes name, texts, networks, plan, or the expiry to an earlier one',
  headers: ['If-Match'],
  query: waitQuery,
  body: editBody,
  responseHeaders: ['ETag'],
  response: changedKey,
  errors: ['not_found', 'conflict', 'precondition_failed', 'precondition_required'],
  handle: async (registry, { request, reply, query, body }) => {
    const id = await readVisibleKeyId(registry, request)
    requirePlanChoice(request, body.plan)
    const edit = { request: body, versions: readIfMatch(request) }
    const context = { ...readRequestContext(request), idempotency: null }
    const lastUsedAtMs = await registry.uses.findLastUse(id)
    const result = await editKey(registry, id, edit, context)
    return changeResponse(registry, requireSuccess(result, request, reply), { lastUsedAtMs, reply, query })
  },
})

/** What an edit would make of a key now. It changes nothing, and needs no version. */
const CHECK_EDIT = adminCall({
  id: 'checkEdit',
  method: 'POST',
  url: `${KEY}/check-edit`,
  operation: 'edit_check',
  ...WRITES,
  summary: 'What an edit would make of a key; nothing is changed',
  body: editBody,
  response: Type.Object({ key: keySchema }),
  errors: ['not_found', 'conflict'],
  handle: async (registry, { request, body }) => {
    const id = await readVisibleKeyId(registry, request)
    requirePlanChoice(request, body.plan)
    const planned = await checkEdit(registry, id, body)
    if (planned.kind !== 'planned') throw toApiError(planned)
    request.keyId = id
    return { key: keyJson(planned.record, registry.clock, await registry.uses.findLastUse(id)) }
  },
})

/** A change of all keys of a workspace takes several calls if there are many. */
const bulkQuery = fields({ ...waitQuery.properties, cursor: cursorField(`^${idPattern('key')}$`) })
const BULK_FIELDS = {
  announced: Type.Boolean(),
  gateways,
  regions,
  hasMore: Type.Optional(Type.Literal(true, { description: 'Some keys are left for another call' })),
  cursor: Type.Optional(Type.String({ description: 'Of the next call; absent from the last response' })),
}

function readBulkContext(request: FastifyRequest, query: Static<typeof bulkQuery>): BulkContext {
  return { caller: describeCaller(request), mustWait: mustWait(query), untilId: query.cursor ?? null }
}

function bulkJson({ announced, gateways, leftUntilId }: BulkOutcome) {
  return {
    ...bulkProgressJson({ announced, gateways }),
    ...(leftUntilId === null ? {} : { hasMore: true as const, cursor: leftUntilId }),
  }
}

/** Repeating it is safe without an Idempotency-Key. */
const REVOKE_ALL = adminCall({
  id: 'revokeAllKeys',
  method: 'POST',
  url: '/workspaces/:workspaceId/revoke-all',
  operation: 'revoke_all',
  ...WRITES,
  summary: 'Revokes every active, retiring and suspended key of a workspace',
  description: 'While the response has `hasMore`, repeat the call with its `cursor`: some keys are left.',
  query: bulkQuery,
  body: noFields,
  response: Type.Object({
    revoked: Type.Integer({ minimum: 0, description: 'Keys that this call revoked' }),
    ...BULK_FIELDS,
  }),
  errors: ['not_found'],
  handle: async (registry, { request, query }) => {
    const workspaceId = readWorkspaceId(request)
    const context = readBulkContext(request, query)
    const outcome = await revokeAllKeys(registry, workspaceId, context)
    return { revoked: outcome.changed, ...bulkJson(outcome) }
  },
})

const plan = Type.Union([Type.String(), Type.Null()], { description: PLAN_EXPECTED })

const OTHER_PLAN =
  'The plan of the workspace was changed again; its keys get the later plan, and this change was stopped'

/** Repeating it is safe without an Idempotency-Key. */
const SET_PLAN = adminCall({
  id: 'setWorkspacePlan',
  method: 'PUT',
  url: WORKSPACE_PLAN,
  operation: 'workspace_plan_set',
  permission: 'keys:write',
  workspaces: 'all',
  summary: 'Gives every active, retiring and suspended key of a workspace a plan, and those issued later',
  description: 'While the response has `hasMore`, repeat the call with its `cursor`: some keys are left.',
  query: bulkQuery,
  body: fields({ plan }),
  response: Type.Object({
    plan,
    changed: Type.Integer({ minimum: 0, description: 'Keys whose plan this call changed' }),
    ...BULK_FIELDS,
  }),
  errors: ['not_found', 'conflict'],
  handle: async (registry, { request, query, body }) => {
    const workspaceId = readWorkspaceId(request)
    const context = readBulkContext(request, query)
    const outcome = await setWorkspacePlan(registry, { workspaceId, plan: body.plan }, context)
    if (outcome.kind === 'invalid') throw toApiError(outcome)
    if (outcome.kind === 'other_plan') throw new ApiError('conflict', OTHER_PLAN)
    return { plan: body.plan, changed: outcome.changed, ...bulkJson(outcome) }
  },
})

/** The calls that change keys, without their prefix. */
export const CHANGE_CALLS: readonly AdminCall<Registry>[] = [
  ISSUE,
  ROTATE,
  stepCall('revoke', 'Revokes a key; again: the same key, unchanged'),
  stepCall('suspend', 'Suspends a key until it is resumed'),
  stepCall('resume', 'Resumes a suspended key'),
  EDIT,
  CHECK_EDIT,
  REVOKE_ALL,
  SET_PLAN,
]

interface ChangeRequest {
  /** Read before the change: what follows the commit must not fail. */
  readonly lastUsedAtMs: number | null
  readonly reply: FastifyReply
  readonly query: WaitQuery
}

async function changeResponse(
  registry: Registry,
  success: OperationSuccess,
  { lastUsedAtMs, reply, query }: ChangeRequest,
) {
  const progress = await readChangeProgress(registry, success, mustWait(query))
  setVersionTag(reply, success.record)
  return { key: keyJson(success.record, registry.clock, lastUsedAtMs), ...progressJson(progress) }
}

/** @throws ApiError if the operation was rejected */
function requireSuccess(
  result: OperationResult,
  request: FastifyRequest,
  reply: FastifyReply,
): OperationSuccess {
  if (result.kind !== 'done') throw toApiError(result)
  request.keyId = result.record.id
  if (result.replayed) void reply.header('idempotency-replayed', 'true')
  return result
}

function toApiError(rejection: OperationRejection): ApiError {
  switch (rejection.kind) {
    case 'invalid':
      return invalidField(rejection.field, rejection.expected)
    case 'unknown_key':
      return noSuchKey()
    case 'not_active':
      return new ApiError('conflict', `Only an active key can be rotated; this one is ${rejection.state}`)
    case 'final':
      return new ApiError('conflict', `The key is ${rejection.state}, which is final; issue a new key`)
    case 'other_version':
      return otherVersion(rejection.version)
    case 'other_request':
      return otherRequest()
  }
}

function otherVersion(version: number): ApiError {
  const tag = versionTag(version)
  const text = `The key was changed meanwhile. Read it again and, if your edit still applies, send it with If-Match: ${tag}`
  return new ApiError('precondition_failed', text, { etag: tag }, 'If-Match')
}

function mustWait({ wait }: WaitQuery): boolean {
  return wait === '1'
}

/**
 * A key of another workspace is refused like an unknown one, before anything else of the request is checked. A key
 * never changes its workspace, so the result stays true.
 */
async function readVisibleKeyId({ stored }: Registry, request: FastifyRequest): Promise<string> {
  const id = readKeyId(request)
  if (sees(requirePrincipal(request), null)) return id
  const key = await stored.findById(id)
  if (key === null || !seesWorkspace(request, key.record.workspaceId)) throw noSuchKey()
  return id
}
