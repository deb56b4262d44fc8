import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { KeyState } from '../../domain/key-record.ts'
import type { StoredKey } from '../registry/database/key-repository.ts'
import type { Done, Refusal } from '../registry/operations/operation.ts'
import { followRevocation } from '../registry/operations/revocation.ts'
import { rotateKey } from '../registry/operations/rotate.ts'
import { requirePerson } from '../sign-in/people.ts'
import { NO_PROBLEMS, type Problems } from './form-fields.ts'
import { fieldOf, shownSecret } from './issue-routes.ts'
import { askedByForm, FORM_NOTICES, newOnceToken } from './once-token.ts'
import {
  answerPage,
  fieldsOf,
  frameOf,
  KEPT,
  keyOf,
  notFound,
  queryOf,
  requirePersonKeepingForm,
  viewOf,
} from './page-request.ts'
import type { PageSources } from './page-sources.ts'
import { WORKSPACES } from './paths.ts'
import { problemPage } from './problem-page.ts'
import { checkRotateForm, type RotateForm, readRotateForm, startRotateForm } from './rotate-form.ts'
import { rotatePage } from './rotate-page.ts'
import { alreadyDonePage, secretPage } from './secret-page.ts'

const PATH = `${WORKSPACES}/:workspaceId/keys/:keyId/rotate`
const config = { operation: 'page' } as const

export function rotateRoutes(scope: FastifyInstance, sources: PageSources): void {
  scope.get(PATH, { preHandler: requirePerson, config }, async (request, reply) => {
    const query = queryOf(request)
    const notice = query[KEPT] === undefined ? null : FORM_NOTICES.kept
    const key = await keyOf(request, sources.registry)
    return showForm(sources, request, reply, key, { form: startRotateForm(query), notice })
  })
  scope.post(PATH, { preHandler: requirePersonKeepingForm, config }, (request, reply) =>
    rotate(sources, request, reply),
  )
}

async function rotate(
  sources: PageSources,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const { registry, count } = sources
  const old = await keyOf(request, registry)
  const { id: keyId } = old.record
  const form = readRotateForm(fieldsOf(request))
  const checked = checkRotateForm(form, registry.clock.wallMs())
  if (!checked.ok) return showForm(sources, request, reply, old, { form, problems: checked.problems })
  const asked = askedByForm(request, ['rotate', { keyId }, form])
  if (asked === null) return showForm(sources, request, reply, old, { form, notice: FORM_NOTICES.incomplete })
  const result = await count('rotate', () => rotateKey(registry, keyId, checked.request, asked))
  if (result.kind === 'done') return showSuccessor(sources, request, reply, result)
  if (result.kind === 'not_active')
    return cannot(sources, request, reply, { ...old.record, state: result.state })
  return showForm(sources, request, reply, old, { form, ...explain(result) })
}

async function showSuccessor(
  sources: PageSources,
  request: FastifyRequest,
  reply: FastifyReply,
  done: Done,
): Promise<FastifyReply> {
  const { registry } = sources
  const { record, replaced, secret } = done
  const frame = frameOf(request, reply, { workspaceId: record.workspaceId, clock: registry.clock })
  const key = await viewOf(record, registry)
  if (secret === null) return answerPage(reply, alreadyDonePage(frame, key))
  const old =
    replaced === null
      ? null
      : {
          key: await viewOf(replaced.record, registry),
          revocation: await followRevocation(registry, done, true),
        }
  return answerPage(
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
  sources: PageSources,
  request: FastifyRequest,
  reply: FastifyReply,
  { record }: StoredKey,
  { form, problems = NO_PROBLEMS, notice = null }: FormAgain,
): Promise<FastifyReply> {
  const { registry } = sources
  const key = await viewOf(record, registry)
  if (key.state !== 'active') return cannot(sources, request, reply, { ...record, state: key.state })
  const frame = frameOf(request, reply, { workspaceId: record.workspaceId, clock: registry.clock })
  const onceToken = newOnceToken(registry.randomBytes)
  const page = rotatePage(frame, { key, form, problems, onceToken, notice })
  return answerPage(reply, page, request.method === 'GET' ? 200 : 422)
}

const REASONS: Readonly<Record<KeyState, string>> = {
  active: 'It was changed by somebody else just now. Please try again.',
  retiring: 'It was rotated before: its successor can be rotated in its place.',
  expired: 'It has expired. Issue a new key instead.',
  revoked: 'It was revoked. Issue a new key instead.',
}

function cannot(
  { registry }: PageSources,
  request: FastifyRequest,
  reply: FastifyReply,
  { workspaceId, state }: { readonly workspaceId: string; readonly state: KeyState },
): FastifyReply {
  const frame = frameOf(request, reply, { workspaceId, clock: registry.clock })
  const problem = { title: 'This key cannot be rotated now', text: REASONS[state], requestId: null }
  return answerPage(reply, problemPage(frame, problem), 409)
}

function explain(refusal: Exclude<Refusal, { kind: 'not_active' }>): Omit<FormAgain, 'form'> {
  switch (refusal.kind) {
    case 'invalid':
      return { problems: new Map([[fieldOf(refusal.field), `This must be ${refusal.expected}`]]) }
    case 'other_request':
      return { notice: FORM_NOTICES.reused }
    case 'unknown_key':
      throw notFound()
  }
}
