import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { KeyState } from '../../../domain/key/key-record.ts'
import { NO_PROBLEMS, type Problems, textField } from '../../platform/html/form-fields.ts'
import { CHANGE_FORMS, CHANGES } from '../../platform/html/guards.ts'
import { FORM_NOTICES, newOnceToken, readFormContext } from '../../platform/html/once-token.ts'
import { fieldsOf, frameOf, notFound, sendPage } from '../../platform/html/page-request.ts'
import { WORKSPACES } from '../../platform/html/paths.ts'
import { problemPage } from '../../platform/html/problem-page.ts'
import { recentUseOf } from '../../usage/index.ts'
import { readChangeProgress } from '../operations/change-progress.ts'
import { rotateKey } from '../operations/rotate.ts'
import type { OperationRejection, OperationSuccess } from '../operations/run-operation.ts'
import type { StoredKey } from '../rows/key-repository.ts'
import { fieldOf, shownSecret } from './issue-routes.ts'
import type { KeyPageParts } from './key-page-parts.ts'
import type { KeyView } from './key-parts.ts'
import { keyOf, viewAfter, viewOf } from './key-request.ts'
import { checkRotateForm, NEW_ROTATE_FORM, type RotateForm, readRotateForm } from './rotate-form.ts'
import { rotateNowPage, rotatePage } from './rotate-page.ts'
import { alreadyDonePage, secretPage } from './secret-page.ts'

const PATH = `${WORKSPACES}/:workspaceId/keys/:keyId/rotate`

export function rotateRoutes(scope: FastifyInstance, sources: KeyPageParts): void {
  scope.get(PATH, CHANGE_FORMS, async (request, reply) => {
    const key = await keyOf(request, sources.registry)
    return showForm(sources, request, reply, key, { form: NEW_ROTATE_FORM })
  })
  scope.post(PATH, CHANGES, (request, reply) => rotate(sources, request, reply))
}

async function rotate(
  sources: KeyPageParts,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const { registry, count } = sources
  const old = await keyOf(request, registry)
  const { id: keyId } = old.record
  const form = readRotateForm(fieldsOf(request))
  const checked = checkRotateForm(form, registry.clock.wallMs())
  if (!checked.ok) return showForm(sources, request, reply, old, { form, problems: checked.problems })
  const context = readFormContext(request, ['rotate', { keyId }, form])
  if (context === null)
    return showForm(sources, request, reply, old, { form, notice: FORM_NOTICES.incomplete })
  const isConfirmed = checked.request.overlapSeconds !== 0 || fieldsOf(request)['confirmed'] === 'yes'
  if (!isConfirmed) return confirmRevocation(sources, request, reply, old, form)
  const before = await viewOf(old.record, registry)
  const result = await count('rotate', () => rotateKey(registry, keyId, checked.request, context))
  if (result.kind === 'done') return showSuccessor(sources, request, reply, result, before)
  if (result.kind === 'not_active')
    return rejectRotation(sources, request, reply, { ...old.record, state: result.state })
  return showForm(sources, request, reply, old, { form, ...explain(result) })
}

async function confirmRevocation(
  sources: KeyPageParts,
  request: FastifyRequest,
  reply: FastifyReply,
  { record }: StoredKey,
  form: RotateForm,
): Promise<FastifyReply> {
  const { registry } = sources
  const key = await viewOf(record, registry)
  if (key.state !== 'active') return rejectRotation(sources, request, reply, { ...record, state: key.state })
  const frame = frameOf(request, reply, { workspaceId: record.workspaceId, clock: registry.clock })
  const onceToken = textField(fieldsOf(request), 'once')
  return sendPage(
    reply,
    rotateNowPage(frame, { key, recent: await recentUseOf(sources, record), form, onceToken }),
  )
}

async function showSuccessor(
  sources: KeyPageParts,
  request: FastifyRequest,
  reply: FastifyReply,
  done: OperationSuccess,
  before: KeyView,
): Promise<FastifyReply> {
  const { registry } = sources
  const { record, replaced, secret } = done
  const frame = frameOf(request, reply, { workspaceId: record.workspaceId, clock: registry.clock })
  if (secret === null) return sendPage(reply, alreadyDonePage(frame, { record }))
  const key = viewAfter(record, null, registry)
  const old =
    replaced === null
      ? null
      : {
          key: viewAfter(replaced.record, before, registry),
          revocation: await readChangeProgress(registry, done, true),
        }
  return sendPage(
    reply,
    secretPage(frame, { key, replaced: old, ...shownSecret(sources, key, secret.reveal()) }),
  )
}

interface FormAgain {
  readonly form: RotateForm
  readonly problems?: Problems
  readonly notice?: string | null
}

async function showForm(
  sources: KeyPageParts,
  request: FastifyRequest,
  reply: FastifyReply,
  { record }: StoredKey,
  { form, problems = NO_PROBLEMS, notice = null }: FormAgain,
): Promise<FastifyReply> {
  const { registry } = sources
  const key = await viewOf(record, registry)
  if (key.state !== 'active') return rejectRotation(sources, request, reply, { ...record, state: key.state })
  const frame = frameOf(request, reply, { workspaceId: record.workspaceId, clock: registry.clock })
  const onceToken = newOnceToken(registry.randomBytes)
  const recent = await recentUseOf(sources, record)
  const page = rotatePage(frame, { key, recent, form, problems, onceToken, notice })
  return sendPage(reply, page, request.method === 'POST' ? 422 : 200)
}

const REASONS: Readonly<Record<KeyState, string>> = {
  active: 'Another change to this key came first. Try again.',
  retiring: 'It has already been rotated. Rotate the key that replaced it.',
  suspended: 'It is suspended. Resume the key first.',
  expired: 'It has expired. Issue a new key instead.',
  revoked: 'It was revoked. Issue a new key instead.',
}

function rejectRotation(
  { registry }: KeyPageParts,
  request: FastifyRequest,
  reply: FastifyReply,
  { workspaceId, state }: { readonly workspaceId: string; readonly state: KeyState },
): FastifyReply {
  const frame = frameOf(request, reply, { workspaceId, clock: registry.clock })
  const problem = { title: 'Key cannot be rotated', text: REASONS[state], requestId: null }
  return sendPage(reply, problemPage(frame, problem), 409)
}

function explain(rejection: Exclude<OperationRejection, { kind: 'not_active' }>): Omit<FormAgain, 'form'> {
  switch (rejection.kind) {
    case 'invalid':
      return { problems: new Map([[fieldOf(rejection.field), `This must be ${rejection.expected}`]]) }
    case 'other_request':
      return { notice: FORM_NOTICES.reused }
    case 'unknown_key':
      throw notFound()
    case 'final':
    case 'other_version':
      throw new Error(`A rotation was rejected as ${rejection.kind}`)
  }
}
