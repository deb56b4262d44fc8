import type { FastifyReply, FastifyRequest, preHandlerAsyncHookHandler } from 'fastify'
import type { Clock } from '../../../domain/clock.ts'
import { isWorkspaceId, keyState } from '../../../domain/key-record.ts'
import { ApiError } from '../../http/api-error.ts'
import type { KeyRepository, StoredKey } from '../../registry/database/key-repository.ts'
import { isKeyId } from '../../registry/operations/ids.ts'
import { csrfTokenOf, personOfRequest } from '../../sign-in/authenticate-people.ts'
import { localPath, signInPath } from '../../sign-in/local-path.ts'
import { maySee } from '../../sign-in/person.ts'
import { type FormFields, listField } from '../forms/form-fields.ts'
import type { Html } from '../layout/html.ts'
import type { Frame } from '../layout/layout.ts'
import type { KeyView } from '../pages/key-parts.ts'

/** In the query of a form's page: what was typed before a session ended or began anew is there again. */
export const KEPT = 'kept'

/** What pages read of the registry. */
export interface Reading {
  readonly repository: KeyRepository
  readonly clock: Clock
}

/** Where somebody may not look, nothing is said to be there. */
export function notFound(): ApiError {
  return new ApiError('not_found', 'There is nothing at this address')
}

/** @throws where there is no such workspace for this person */
export function workspaceOf(request: FastifyRequest): string {
  const workspaceId = parameterOf(request, 'workspaceId')
  if (!isWorkspaceId(workspaceId) || !maySee(personOfRequest(request), workspaceId)) throw notFound()
  return workspaceId
}

/** The key that the path names, in the workspace that the path names. @throws where it is not this person's to see */
export async function keyOf(request: FastifyRequest, { repository }: Reading): Promise<StoredKey> {
  const workspaceId = workspaceOf(request)
  const keyId = parameterOf(request, 'keyId')
  const key = isKeyId(keyId) ? await repository.findById(keyId) : null
  if (key === null || key.record.workspaceId !== workspaceId) throw notFound()
  request.keyId = keyId
  return key
}

export async function viewsOf(
  keys: readonly Pick<StoredKey, 'record'>[],
  { repository, clock }: Reading,
): Promise<KeyView[]> {
  const uses = await repository.lastUses(keys.map(({ record }) => record.id))
  const nowMs = clock.wallMs()
  return keys.map(({ record }) => ({
    record,
    state: keyState(record, nowMs),
    lastUsedAtMs: uses.get(record.id) ?? null,
  }))
}

export async function viewOf(record: KeyView['record'], reading: Reading): Promise<KeyView> {
  const [view] = await viewsOf([{ record }], reading)
  if (view === undefined) throw new Error('One key has one view')
  return view
}

export function frameOf(
  request: FastifyRequest,
  reply: FastifyReply,
  { workspaceId, clock }: { readonly workspaceId: string | null; readonly clock: Clock },
): Frame {
  const { name, workspaces, administrator } = personOfRequest(request)
  return {
    personName: name,
    workspaceId,
    mayChoose: administrator || workspaces.length > 1,
    csrfToken: csrfTokenOf(request, reply),
    nowMs: clock.wallMs(),
  }
}

export function answerPage(reply: FastifyReply, page: Html, status = 200): FastifyReply {
  return reply.code(status).type('text/html; charset=utf-8').send(page.toString())
}

/** The parser of forms makes nothing else of a body, and that of queries nothing else of a query. */
export function fieldsOf(request: FastifyRequest): FormFields {
  return (request.body ?? {}) as FormFields
}

export function queryOf(request: FastifyRequest): FormFields {
  return request.query as FormFields
}

/** A preHandler. A form whose session has ended is there again after signing in, with what was typed. */
export const requirePersonKeepingForm: preHandlerAsyncHookHandler = async (request, reply) => {
  if (request.person !== null) return
  await reply.redirect(signInPath(formAgainPath(request)), 303)
}

/** The address of a form's page, with what was typed; never with what only the one form may be sent with. */
export function formAgainPath(request: FastifyRequest): string {
  const [path = '/'] = request.url.split('?')
  const query = new URLSearchParams()
  const fields = fieldsOf(request)
  for (const name of Object.keys(fields)) {
    if (name !== '_csrf' && name !== 'once')
      for (const value of listField(fields, name)) query.append(name, value)
  }
  query.set(KEPT, '1')
  return localPath(`${path}?${query}`) ?? localPath(path) ?? '/'
}

function parameterOf(request: FastifyRequest, name: 'workspaceId' | 'keyId'): string {
  // The router gives text under each name that the path has.
  return (request.params as Record<string, string>)[name] ?? ''
}
