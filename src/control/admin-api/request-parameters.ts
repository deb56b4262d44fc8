import type { FastifyRequest } from 'fastify'
import { isWorkspaceId } from '../../domain/key/key-record.ts'
import { sees } from '../access/principal.ts'
import { ApiError, invalidField } from '../http/api-error.ts'
import { principalOf, seesWorkspace } from '../http/request-context.ts'
import type { KeyRepository, PageOptions } from '../registry/database/key-repository.ts'
import { isKeyId } from '../registry/operations/ids.ts'
import { EXPECTED, type PageQuery, type WaitQuery } from './admin-schemas.ts'

export const WORKSPACE_KEYS = '/workspaces/:workspaceId/keys'
export const KEY = '/keys/:keyId'
export const DEFAULT_PAGE_SIZE = 50

/** @param request of a route whose schema has validated the query */
export function mustWait({ query }: FastifyRequest): boolean {
  return (query as WaitQuery).wait === '1'
}

/** @param request of a route whose schema has validated the query */
export function readPageOptions(request: FastifyRequest): PageOptions {
  const workspaceId = workspaceIdOf(request)
  const { limit, cursor } = request.query as PageQuery
  return { workspaceId, limit: Number(limit ?? DEFAULT_PAGE_SIZE), afterId: cursor ?? null }
}

/** @throws ApiError if the caller may not see this workspace */
export function workspaceIdOf(request: FastifyRequest): string {
  const workspaceId = parameterOf(request, 'workspaceId')
  if (!isWorkspaceId(workspaceId)) throw invalidField('workspaceId', EXPECTED['workspaceId'] ?? '')
  if (!seesWorkspace(request, workspaceId)) throw new ApiError('not_found', 'No such workspace')
  return workspaceId
}

/**
 * A key of another workspace is refused like an unknown one, before anything else of the request is checked. A key
 * never changes its workspace, so the result stays true.
 */
export async function visibleKeyIdOf(
  { repository }: { readonly repository: KeyRepository },
  request: FastifyRequest,
): Promise<string> {
  const id = keyIdOf(request)
  if (sees(principalOf(request), null)) return id
  const key = await repository.findById(id)
  if (key === null || !seesWorkspace(request, key.record.workspaceId)) throw noSuchKey()
  return id
}

/** Rejects what is no key id before it reaches the database. */
export function keyIdOf(request: FastifyRequest): string {
  const keyId = parameterOf(request, 'keyId')
  if (!isKeyId(keyId)) throw noSuchKey()
  return keyId
}

export function noSuchKey(): ApiError {
  return new ApiError('not_found', 'No such key')
}

function parameterOf(request: FastifyRequest, name: 'workspaceId' | 'keyId'): string {
  // The router yields a text for each parameter in the path.
  return (request.params as Record<string, string>)[name] ?? ''
}
