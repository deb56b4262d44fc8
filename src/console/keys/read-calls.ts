import type { FastifyReply, FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import type { Clock } from '../../domain/clock.ts'
import { toInstant } from '../../domain/form/instant.ts'
import { type KeyRecord, keyState, type StoredKey } from '../../domain/key/key-record.ts'
import { holdsKeyForm } from '../../domain/key/secret.ts'
import { toRecordJson } from '../../domain/wire.ts'
import { allowedWorkspaces } from '../platform/access/principal.ts'
import { ApiError, invalidField } from '../platform/http/api-error.ts'
import { type AdminCall, declareCalls } from '../platform/http/calls.ts'
import {
  digest,
  fields,
  key as keySchema,
  listJson,
  pageQuery,
  pageSchema,
  parameter,
  parametersOf,
  textOrNull,
} from '../platform/http/fields.ts'
import {
  noSuchKey,
  readKeyId,
  readPageOptions,
  readWorkspaceId,
  requirePrincipal,
  seesWorkspace,
} from '../platform/http/request-context.ts'
import type { Registry } from './operations/registry.ts'
import { KEY_QUERY_EXPECTED, type KeyQuery, parseKeyQuery } from './search/key-query.ts'
import { setVersionTag } from './version-tag.ts'

export const WORKSPACE_KEYS = '/workspaces/:workspaceId/keys'
export const WORKSPACE_PLAN = '/workspaces/:workspaceId/plan'
export const KEY = '/keys/:keyId'

const adminCall = declareCalls<Registry>()

const READS = { permission: 'keys:read', workspaces: 'own' } as const

const LIST = adminCall({
  id: 'listKeys',
  method: 'GET',
  url: WORKSPACE_KEYS,
  operation: 'list',
  ...READS,
  summary: 'Keys of a workspace, newest first',
  query: pageQuery('key'),
  response: pageSchema('keys', keySchema),
  errors: ['not_found'],
  handle: async ({ stored, uses, clock }, { request, query }) => {
    const { keys, nextAfterId } = await stored.list(readPageOptions(request, query))
    const lastUses = await uses.lastUses(keys.map(key => key.record.id))
    const records = keys.map(({ record }) => keyJson(record, clock, lastUses.get(record.id) ?? null))
    return listJson({ keys: records }, nextAfterId)
  },
})

const GET = adminCall({
  id: 'getKey',
  method: 'GET',
  url: KEY,
  operation: 'get',
  ...READS,
  summary: 'One key',
  responseHeaders: ['ETag'],
  response: Type.Object({ key: keySchema }),
  errors: ['not_found'],
  handle: async (registry, { request, reply }) => {
    const key = await registry.stored.findById(readKeyId(request))
    return showKey(registry, key, request, reply)
  },
})

const SEARCH = adminCall({
  id: 'searchKeys',
  method: 'GET',
  url: '/keys',
  operation: 'search',
  ...READS,
  summary: 'Keys of all workspaces that the caller may see',
  description:
    '`q` is a part of the name, id, hint or description, in any case. Default order: `-createdAt`.',
  // `parseKeyQuery` checks the values.
  query: fields({
    ...parametersOf(KEY_QUERY_EXPECTED),
    cursor: parameter('a single cursor from an earlier response'),
    count: Type.Optional(Type.Literal('1', { description: '1 or omitted' })),
  }),
  response: Type.Object({
    ...pageSchema('keys', keySchema).properties,
    total: Type.Optional(Type.Integer({ minimum: 0, description: 'With `count=1`' })),
  }),
  errors: ['not_found'],
  handle: async ({ search, clock, keyPrefix }, { request, query: { count, ...parameters } }) => {
    const parsed = parseKeyQuery(parameters)
    if (!parsed.ok) throw invalidField(parsed.field, parsed.expected)
    rejectKeyInSearch(parsed.query.text, keyPrefix)
    const wanted: KeyQuery = { ...parsed.query, workspaceIds: searchedWorkspaces(parsed.query, request) }
    const { keys, nextCursor } = await search.find(wanted)
    const found = keys.map(({ record, lastUsedAtMs }) => keyJson(record, clock, lastUsedAtMs))
    const total = count === '1' ? await search.count(wanted) : null
    return { ...listJson({ keys: found }, nextCursor), ...(total === null ? {} : { total }) }
  },
})

const GET_PLAN = adminCall({
  id: 'getWorkspacePlan',
  method: 'GET',
  url: WORKSPACE_PLAN,
  operation: 'workspace_plan',
  ...READS,
  summary: 'The plan of a workspace: that of its keys, unless another one was chosen for a key',
  response: Type.Object({ plan: textOrNull }),
  errors: ['not_found'],
  handle: async ({ plans }, { request }) => ({
    plan: await plans.findPlan(readWorkspaceId(request)),
  }),
})

const FIND = adminCall({
  id: 'findKey',
  method: 'POST',
  url: '/keys/lookup',
  operation: 'find',
  ...READS,
  summary: 'The key with this SHA-256 digest; the secret stays with the caller',
  body: fields({ digest }),
  responseHeaders: ['ETag'],
  response: Type.Object({ key: keySchema }),
  errors: ['not_found'],
  handle: async (registry, { request, reply, body }) => {
    const key = await registry.stored.findByDigest(body.digest)
    return showKey(registry, key, request, reply)
  },
})

/** The calls that read keys, without their prefix. */
export const READ_CALLS: readonly AdminCall<Registry>[] = [LIST, GET, SEARCH, GET_PLAN, FIND]

/** @param key null if there is none; one of a workspace that the caller may not see counts as none */
async function showKey(
  registry: Registry,
  key: StoredKey | null,
  request: FastifyRequest,
  reply: FastifyReply,
) {
  if (key === null || !seesWorkspace(request, key.record.workspaceId)) throw noSuchKey()
  const { record } = key
  request.keyId = record.id
  setVersionTag(reply, record)
  return { key: keyJson(record, registry.clock, await registry.uses.findLastUse(record.id)) }
}

/** A key with its state and last use. */
export function keyJson(record: KeyRecord, clock: Clock, lastUsedAtMs: number | null) {
  return {
    ...toRecordJson(record),
    state: keyState(record, clock.wallMs()),
    lastUsedAt: toInstant(lastUsedAtMs),
  }
}

/** @returns the workspaces to search; null: all */
function searchedWorkspaces({ workspaceIds }: KeyQuery, request: FastifyRequest): readonly string[] | null {
  if (workspaceIds === null) return allowedWorkspaces(requirePrincipal(request))
  if (workspaceIds.every(workspaceId => seesWorkspace(request, workspaceId))) return workspaceIds
  throw new ApiError('not_found', 'No such workspace')
}

/** A secret in an address ends up in logs of proxies. */
function rejectKeyInSearch(text: string | null, keyPrefix: string): void {
  if (text === null || !holdsKeyForm(text, keyPrefix)) return
  throw invalidField('q', 'no API key; send its SHA-256 digest to POST /admin/v1/keys/lookup instead')
}
