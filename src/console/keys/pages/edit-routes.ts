import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { keyState } from '../../../domain/key/key-record.ts'
import { NO_PROBLEMS, type Problems } from '../../platform/html/form-fields.ts'
import { CHANGE_FORMS, CHANGES } from '../../platform/html/guards.ts'
import { fieldsOf, frameOf, notFound, sendPage } from '../../platform/html/page-request.ts'
import { keyPath, WORKSPACES } from '../../platform/html/paths.ts'
import { problemPage } from '../../platform/html/problem-page.ts'
import { callerOf } from '../../platform/http/request-context.ts'
import { editKey } from '../operations/edit.ts'
import type { StoredKey } from '../rows/key-repository.ts'
import { checkEditForm, type EditForm, readEditForm, rebaseEditForm, startEditForm } from './edit-form.ts'
import { editPage } from './edit-page.ts'
import { fieldOf } from './issue-routes.ts'
import type { KeyPageParts } from './key-page-parts.ts'
import { keyOf, viewOf } from './key-request.ts'
import { FINAL_TEXTS } from './step-routes.ts'

const PATH = `${WORKSPACES}/:workspaceId/keys/:keyId/edit`
/** No form is older: a session ends before. */
const FORM_AGE_MS = 86_400_000
const MAX_CHANGES_SHOWN = 20

export function editRoutes(scope: FastifyInstance, sources: KeyPageParts): void {
  scope.get(PATH, CHANGE_FORMS, async (request, reply) => {
    const key = await keyOf(request, sources.registry)
    return showForm(sources, request, reply, key, { form: startEditForm(key.record) })
  })
  scope.post(PATH, CHANGES, (request, reply) => edit(sources, request, reply))
}

async function edit(
  sources: KeyPageParts,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const { registry, count } = sources
  const key = await keyOf(request, registry)
  const { workspaceId, id } = key.record
  const form = readEditForm(fieldsOf(request))
  const checked = checkEditForm(form, key.record, registry.clock.wallMs())
  if (!checked.ok) return showForm(sources, request, reply, key, { form, problems: checked.problems })
  const context = { caller: callerOf(request), idempotency: null }
  const edit = { request: checked.request, versions: [form.version ?? 0] }
  const result = await count('edit', () => editKey(registry, id, edit, context))
  switch (result.kind) {
    case 'done':
      return reply.redirect(keyPath(workspaceId, id), 303)
    case 'invalid': {
      const problems = new Map([[fieldOf(result.field), `This must be ${result.expected}`]])
      return showForm(sources, request, reply, key, { form, problems })
    }
    case 'other_version':
      return showConflict(sources, request, reply, form)
    case 'final':
      return rejectFinal(sources, request, reply, key)
    default:
      throw notFound()
  }
}

interface FormAgain {
  readonly form: EditForm
  readonly problems?: Problems
}

async function showForm(
  sources: KeyPageParts,
  request: FastifyRequest,
  reply: FastifyReply,
  stored: StoredKey,
  { form, problems = NO_PROBLEMS }: FormAgain,
): Promise<FastifyReply> {
  const { registry } = sources
  const key = await viewOf(stored.record, registry)
  if (key.state === 'expired' || key.state === 'revoked') return rejectFinal(sources, request, reply, stored)
  // A form of another version is answered with what changed, also where it has problems.
  if (form.version !== key.record.version) return showConflict(sources, request, reply, form, problems)
  const frame = frameOf(request, reply, { workspaceId: key.record.workspaceId, clock: registry.clock })
  const page = editPage(frame, { key, form, problems, meanwhile: null })
  return sendPage(reply, page, request.method === 'POST' ? 422 : 200)
}

/** Another change came first: shows it beside the entries, which can be saved over it. */
async function showConflict(
  sources: KeyPageParts,
  request: FastifyRequest,
  reply: FastifyReply,
  form: EditForm,
  problems: Problems = NO_PROBLEMS,
): Promise<FastifyReply> {
  const { registry } = sources
  const { record } = await keyOf(request, registry)
  const changes = Math.min(Math.max(1, record.version - (form.version ?? record.version)), MAX_CHANGES_SHOWN)
  const since = { sinceMs: registry.clock.wallMs() - FORM_AGE_MS, limit: changes }
  const meanwhile = await registry.repository.listHistory(record, since)
  const frame = frameOf(request, reply, { workspaceId: record.workspaceId, clock: registry.clock })
  const key = await viewOf(record, registry)
  return sendPage(
    reply,
    editPage(frame, { key, form: rebaseEditForm(form, record, meanwhile), problems, meanwhile }),
    412,
  )
}

function rejectFinal(
  { registry }: KeyPageParts,
  request: FastifyRequest,
  reply: FastifyReply,
  { record }: StoredKey,
): FastifyReply {
  const state = keyState(record, registry.clock.wallMs()) === 'revoked' ? 'revoked' : 'expired'
  const frame = frameOf(request, reply, { workspaceId: record.workspaceId, clock: registry.clock })
  const problem = { title: 'Key cannot be changed', text: FINAL_TEXTS[state], requestId: null }
  return sendPage(reply, problemPage(frame, problem), 409)
}
