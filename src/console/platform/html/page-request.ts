import type { FastifyReply, FastifyRequest, onRequestAsyncHookHandler } from 'fastify'
import type { Clock } from '../../../domain/clock.ts'
import { isWorkspaceId, keyState } from '../../../domain/key/key-record.ts'
import type { AuditEntry } from '../../audit/audit.ts'
import { isKeyId } from '../../keys/operations/ids.ts'
import type { KeyView } from '../../keys/pages/key-parts.ts'
import type { KeyRepository, StoredKey } from '../../keys/rows/key-repository.ts'
import { csrfTokenOf, personOfRequest } from '../../sign-in/authenticate-people.ts'
import { EXPIRED, formPage, returnPath, signInPath } from '../../sign-in/local-path.ts'
import { may } from '../access/principal.ts'
import { ApiError } from '../http/api-error.ts'
import { principalOf, seesWorkspace } from '../http/request-context.ts'
import { type FormFields, textField } from './form-fields.ts'
import type { Html } from './html.ts'
import type { Frame } from './layout.ts'

/** What pages read of the registry. */
export interface RegistryReader {
  readonly repository: KeyRepository
  readonly clock: Clock
}

/** Also for pages of workspaces that the person may not see. */
export function notFound(): ApiError {
  return new ApiError('not_found', 'Page not found')
}

/** @throws if the person may not see this workspace */
export function workspaceOf(request: FastifyRequest): string {
  const workspaceId = parameterOf(request, 'workspaceId')
  if (!isWorkspaceId(workspaceId) || !seesWorkspace(request, workspaceId)) throw notFound()
  return workspaceId
}

/** An onRequest hook for pages that change keys of the workspace of the path. */
export const requireManager: onRequestAsyncHookHandler = async request => {
  const workspaceId = workspaceOf(request)
  if (!may(principalOf(request), 'keys:write', workspaceId)) {
    throw new ApiError('forbidden', 'You have the role of a viewer, who sees keys and changes none')
  }
}

/** The key of the path, in the workspace of the path. @throws if the person may not see it */
export async function keyOf(request: FastifyRequest, { repository }: RegistryReader): Promise<StoredKey> {
  const workspaceId = workspaceOf(request)
  const keyId = parameterOf(request, 'keyId')
  const key = isKeyId(keyId) ? await repository.findById(keyId) : null
  if (key === null || key.record.workspaceId !== workspaceId) throw notFound()
  request.keyId = keyId
  return key
}

export async function viewsOf(
  keys: readonly Pick<StoredKey, 'record'>[],
  { repository, clock }: RegistryReader,
): Promise<KeyView[]> {
  const uses = await repository.lastUses(keys.map(({ record }) => record.id))
  const nowMs = clock.wallMs()
  return keys.map(({ record }) => ({
    record,
    state: keyState(record, nowMs),
    lastUsedAtMs: uses.get(record.id) ?? null,
  }))
}

export async function viewOf(record: KeyView['record'], reader: RegistryReader): Promise<KeyView> {
  const [view] = await viewsOf([{ record }], reader)
  if (view === undefined) throw new Error('viewsOf must return one view for each key')
  return view
}

/** After a change: nothing is read, since what follows the commit must not fail. @param before the same key, or null if it is new */
export function viewAfter(
  record: KeyView['record'],
  before: KeyView | null,
  { clock }: RegistryReader,
): KeyView {
  return { record, state: keyState(record, clock.wallMs()), lastUsedAtMs: before?.lastUsedAtMs ?? null }
}

/** Name of the person who issued a key; null if the audit log has none. */
export function creatorOf(origin: AuditEntry | null): string | null {
  const by = origin?.detail['by']
  return typeof by === 'string' ? by : null
}

export function frameOf(
  request: FastifyRequest,
  reply: FastifyReply,
  { workspaceId, clock }: { readonly workspaceId: string | null; readonly clock: Clock },
): Frame {
  const person = personOfRequest(request)
  const { name, workspaces, workspacesGranted: granted, administrator } = person
  return {
    personName: name,
    workspaceId,
    mayChoose: administrator || workspaces.length > 1,
    mayChange: workspaceId !== null && may(principalOf(request), 'keys:write', workspaceId),
    isAdministrator: administrator,
    leftOut: granted === undefined || administrator ? null : { granted, used: workspaces.length },
    unusedClaims: person.unusedClaims ?? [],
    sessionExpired: queryOf(request)[EXPIRED] !== undefined,
    csrfToken: csrfTokenOf(request, reply),
    nowMs: clock.wallMs(),
  }
}

export function sendPage(reply: FastifyReply, page: Html, status = 200): FastifyReply {
  return reply.code(status).type('text/html; charset=utf-8').send(page.toString())
}

/** The parsers of forms and of queries yield this type. */
export function fieldsOf(request: FastifyRequest): FormFields {
  return (request.body ?? {}) as FormFields
}

const CURSOR = /^(?:audit|msg)_[0-9A-HJKMNP-TV-Z]{26}$/

/** An invalid cursor shows the first page. */
export function cursorOf(request: FastifyRequest): string | null {
  const cursor = textField(queryOf(request), 'cursor')
  return CURSOR.test(cursor) ? cursor : null
}

export function queryOf(request: FastifyRequest): FormFields {
  return request.query as FormFields
}

/**
 * An onRequest hook. After signing in, a person whose session has expired comes back to the page of the form. Its fields are not kept:
 * they would get into URLs and the history of the browser, and may hold a key or an address with a secret.
 */
export const requirePersonOfForm: onRequestAsyncHookHandler = async (request, reply) => {
  if (request.person !== null) return
  await reply.redirect(signInPath(returnPath(formPage(request.url))), 303)
}

function parameterOf(request: FastifyRequest, name: 'workspaceId' | 'keyId'): string {
  // The router yields a text for each parameter in the path.
  return (request.params as Record<string, string>)[name] ?? ''
}
