import type { FastifyReply, FastifyRequest } from 'fastify'
import { holdsKeyForm } from '../../domain/key/secret.ts'
import { workspacesOf } from '../access/principal.ts'
import { ApiError, invalidField } from '../http/api-error.ts'
import type { AdminCall } from '../http/calls.ts'
import { principalOf, seesWorkspace } from '../http/request-context.ts'
import type { Registry } from '../registry/registry.ts'
import type { KeyQuery, WorkspaceSummary } from '../registry/search/key-query.ts'
import { isSearchText, KEY_QUERY_EXPECTED, parseKeyQuery } from '../registry/search/parse-key-query.ts'
import {
  type FindBody,
  findBody,
  type SearchQuery,
  searchQuery,
  type WorkspacesQuery,
  workspacesQuery,
} from './admin-schemas.ts'
import { instant, keyJson, keyWithUseJson, listJson } from './key-json.ts'
import { setVersionTag } from './operation-answer.ts'
import { DEFAULT_PAGE_SIZE, noSuchKey } from './request-parameters.ts'

/** Lists and searches over all workspaces that the caller may see, without the prefix. */
export function searchCalls(registry: Registry): AdminCall[] {
  return [
    {
      method: 'GET',
      url: '/keys',
      operation: 'search',
      permission: 'keys:read',
      workspaces: 'own',
      schema: { querystring: searchQuery },
      handle: request => searchKeys(registry, request),
    },
    {
      method: 'GET',
      url: '/workspaces',
      operation: 'workspaces',
      permission: 'keys:read',
      workspaces: 'own',
      schema: { querystring: workspacesQuery },
      handle: request => listWorkspaces(registry, request),
    },
    {
      method: 'POST',
      url: '/keys/lookup',
      operation: 'find',
      permission: 'keys:read',
      workspaces: 'own',
      schema: { body: findBody },
      handle: (request, reply) => findByDigest(registry, request, reply),
    },
  ]
}

async function searchKeys({ repository, clock, keyPrefix }: Registry, request: FastifyRequest) {
  // The route's schema has validated the types.
  const { count, ...parameters } = request.query as SearchQuery
  const parsed = parseKeyQuery(parameters)
  if (!parsed.ok) throw invalidField(parsed.field, parsed.expected)
  refuseSecret(parsed.query.text, keyPrefix)
  const query: KeyQuery = { ...parsed.query, workspaceIds: searchedWorkspaces(parsed.query, request) }
  const { keys, nextCursor } = await repository.search(query)
  const found = keys.map(({ record, lastUsedAtMs }) => keyJson(record, clock, lastUsedAtMs))
  const total = count === '1' ? await repository.count(query) : null
  return { ...listJson({ keys: found }, nextCursor), ...(total === null ? {} : { total }) }
}

/** @returns the workspaces to search; null: all */
function searchedWorkspaces({ workspaceIds }: KeyQuery, request: FastifyRequest): readonly string[] | null {
  if (workspaceIds === null) return workspacesOf(principalOf(request))
  if (workspaceIds.every(workspaceId => seesWorkspace(request, workspaceId))) return workspaceIds
  throw new ApiError('not_found', 'No such workspace')
}

async function listWorkspaces({ repository }: Registry, request: FastifyRequest) {
  // The route's schema has validated the query.
  const { q, limit, cursor } = request.query as WorkspacesQuery
  if (q !== undefined && !isSearchText(q)) throw invalidField('q', KEY_QUERY_EXPECTED.q)
  const { workspaces, nextAfterId } = await repository.listWorkspaces({
    workspaceIds: workspacesOf(principalOf(request)),
    text: q ?? null,
    limit: Number(limit ?? DEFAULT_PAGE_SIZE),
    afterId: cursor ?? null,
    maxKeysCounted: null,
  })
  return listJson({ workspaces: workspaces.map(workspaceJson) }, nextAfterId)
}

function workspaceJson({ workspaceId, keys, lastUsedAtMs }: WorkspaceSummary) {
  return { workspaceId, keys, lastUsedAt: instant(lastUsedAtMs) }
}

async function findByDigest(registry: Registry, request: FastifyRequest, reply: FastifyReply) {
  // The route's schema has validated the body.
  const key = await registry.repository.findByDigest((request.body as FindBody).digest)
  if (key === null || !seesWorkspace(request, key.record.workspaceId)) throw noSuchKey()
  request.keyId = key.record.id
  setVersionTag(reply, key.record)
  return { key: await keyWithUseJson(registry, key.record) }
}

/** A secret in an address ends up in logs of proxies. */
function refuseSecret(text: string | null, keyPrefix: string): void {
  if (text === null || !holdsKeyForm(text, keyPrefix)) return
  throw invalidField('q', 'no API key; send its SHA-256 digest to POST /admin/v1/keys/lookup instead')
}
