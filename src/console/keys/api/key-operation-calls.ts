import type { FastifyReply } from 'fastify'
import { Type } from 'typebox'
import { OVERLAP_EXPECTED } from '../../../domain/key/rotate-key.ts'
import { type AdminCall, declareCalls } from '../../platform/http/admin-call.ts'
import type { Operation } from '../../platform/http/calls.ts'
import { readRequestContext } from '../../platform/http/request-context.ts'
import {
  allowedCidrs,
  description,
  expiresAt,
  expiresInDays,
  fields,
  name,
  noFields,
  optionalFields,
  scopes,
  type WaitQuery,
  waitQuery,
} from '../../platform/http/request-fields.ts'
import {
  KEY,
  mustWait,
  visibleKeyIdOf,
  WORKSPACE_KEYS,
  workspaceIdOf,
} from '../../platform/http/request-parameters.ts'
import {
  key as keySchema,
  PROGRESS_FIELDS,
  secret as secretSchema,
} from '../../platform/http/response-fields.ts'
import { readChangeProgress } from '../operations/change-progress.ts'
import { editKey } from '../operations/edit.ts'
import { issueKey } from '../operations/issue.ts'
import type { KeyParts } from '../operations/operation-counter.ts'
import { revokeKey } from '../operations/revoke.ts'
import { rotateKey } from '../operations/rotate.ts'
import type { OperationSuccess } from '../operations/run-operation.ts'
import { resumeKey, suspendKey } from '../operations/suspend.ts'
import type { Registry } from '../registry.ts'
import { keyJson, lastUseOf, progressJson } from './key-json.ts'
import { readIfMatch, requireSuccess, setVersionTag } from './operation-response.ts'

const adminCall = declareCalls<KeyParts>()

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
  body: fields({ name, scopes, description, allowedCidrs, expiresInDays, expiresAt }),
  status: 201,
  responseHeaders: ['ETag', 'Idempotency-Replayed'],
  response: Type.Object({ key: keySchema, secret: secretSchema }),
  errors: ['not_found', 'idempotency_mismatch'],
  handle: async ({ registry, count }, { request, reply, body }) => {
    const workspaceId = workspaceIdOf(request)
    const context = readRequestContext(request)
    const result = await count('issue', () => issueKey(registry, body, workspaceId, context))
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
  handle: async ({ registry, count }, { request, reply, query, body }) => {
    const id = await visibleKeyIdOf(registry, request)
    const context = readRequestContext(request)
    const lastUsedAtMs = await lastUseOf(registry, id)
    const result = await count('rotate', () => rotateKey(registry, id, body ?? {}, context))
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
function stepCall(
  operation: Operation & ('revoke' | 'suspend' | 'resume'),
  summary: string,
  change: typeof revokeKey,
): AdminCall<KeyParts> {
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
    status: 200,
    responseHeaders: ['ETag', 'Idempotency-Replayed'],
    response: changedKey,
    errors: ['not_found', ...(operation === 'revoke' ? [] : ['conflict' as const]), 'idempotency_mismatch'],
    handle: async ({ registry, count }, { request, reply, query }) => {
      const id = await visibleKeyIdOf(registry, request)
      const context = readRequestContext(request)
      const lastUsedAtMs = await lastUseOf(registry, id)
      const result = await count(operation, () => change(registry, id, context))
      const success = requireSuccess(result, request, reply)
      return changeResponse(registry, success, { lastUsedAtMs, reply, query })
    },
  })
}

/** If-Match makes a retry safe: an Idempotency-Key has no effect. */
const EDIT = adminCall({
  id: 'editKey',
  method: 'PATCH',
  url: KEY,
  operation: 'edit',
  ...WRITES,
  summary: 'Changes name, description, networks, or the expiry to an earlier one',
  headers: ['If-Match'],
  query: waitQuery,
  body: fields({ name: Type.Optional(name), description, expiresAt, allowedCidrs }),
  status: 200,
  responseHeaders: ['ETag'],
  response: changedKey,
  errors: ['not_found', 'conflict', 'precondition_failed', 'precondition_required'],
  handle: async ({ registry, count }, { request, reply, query, body }) => {
    const id = await visibleKeyIdOf(registry, request)
    const edit = { request: body, versions: readIfMatch(request) }
    const context = { ...readRequestContext(request), idempotency: null }
    const lastUsedAtMs = await lastUseOf(registry, id)
    const result = await count('edit', () => editKey(registry, id, edit, context))
    return changeResponse(registry, requireSuccess(result, request, reply), { lastUsedAtMs, reply, query })
  },
})

/** The calls that change one key, without their prefix. */
export const KEY_OPERATION_CALLS: readonly AdminCall<KeyParts>[] = [
  ISSUE,
  ROTATE,
  stepCall('revoke', 'Revokes a key; again: the same key, unchanged', revokeKey),
  stepCall('suspend', 'Suspends a key until it is resumed', suspendKey),
  stepCall('resume', 'Resumes a suspended key', resumeKey),
  EDIT,
]

interface ChangeRequest {
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
