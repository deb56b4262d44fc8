import type { FastifyRequest } from 'fastify'
import { isWorkspaceId, type StoredKey } from '../../../domain/key/key-record.ts'
import { sees } from '../access/principal.ts'
import { isKeyId } from '../ids.ts'
import { ApiError, invalidField } from './api-error.ts'
import { principalOf, seesWorkspace } from './request-context.ts'
import { type PageQuery, type WaitQuery, WORKSPACE_ID_EXPECTED } from './request-fields.ts'

export const WORKSPACE_KEYS = '/workspaces/:workspaceId/keys'
export const KEY = '/keys/:keyId'
const DEFAULT_PAGE_SIZE = 50

export function mustWait({ wait }: WaitQuery): boolean {
  return wait === '1'
}

export function readPage({ limit, cursor }: PageQuery): { limit: number; afterId: string | null } {
  return { limit: Number(limit ?? DEFAULT_PAGE_SIZE), afterId: cursor ?? null }
}

/** A page of a list of one workspace. */
export interface PageOptions {
  readonly workspaceId: string
  readonly limit: number
  readonly afterId: string | null
}

/** Of the workspace of the path. */
export function readPageOptions(request: FastifyRequest, query: PageQuery): PageOptions {
  return { workspaceId: workspaceIdOf(request), ...readPage(query) }
}

/** @throws ApiError if the caller may not see this workspace */
export function workspaceIdOf(request: FastifyRequest): string {
  const workspaceId = parameterOf(request, 'workspaceId')
  if (!isWorkspaceId(workspaceId)) throw invalidField('workspaceId', WORKSPACE_ID_EXPECTED)
  if (!seesWorkspace(request, workspaceId)) throw new ApiError('not_found', 'No such workspace')
  return workspaceId
}

/**
 * A key of another workspace is refused like an unknown one, before anything else of the request is checked. A key
 * never changes its workspace, so the result stays true.
 */
export async function visibleKeyIdOf(
  { repository }: { readonly repository: { readonly findById: (id: string) => Promise<StoredKey | null> } },
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
