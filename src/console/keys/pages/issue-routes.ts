import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { codeExamples, firstEndpoint } from '../../platform/html/code-examples.ts'
import { NO_PROBLEMS, type Problems } from '../../platform/html/form-fields.ts'
import { CHANGE_FORMS, CHANGES, SHOWS } from '../../platform/html/guards.ts'
import { FORM_NOTICES, newOnceToken, readFormContext } from '../../platform/html/once-token.ts'
import { fieldsOf, frameOf, notFound, sendPage, workspaceOf } from '../../platform/html/page-request.ts'
import { WORKSPACES } from '../../platform/html/paths.ts'
import { issueKey } from '../operations/issue.ts'
import type { OperationRejection } from '../operations/run-operation.ts'
import { checkIssueForm, type IssueForm, NEW_ISSUE_FORM, readIssueForm } from './issue-form.ts'
import { issuePage } from './issue-page.ts'
import type { KeyPageParts } from './key-page-parts.ts'
import { keyOf, viewAfter } from './key-request.ts'
import { alreadyDonePage, secretPage } from './secret-page.ts'

const PATH = `${WORKSPACES}/:workspaceId/keys/new`

export function issueRoutes(scope: FastifyInstance, sources: KeyPageParts): void {
  scope.get(PATH, CHANGE_FORMS, async (request, reply) =>
    showForm(sources, request, reply, { form: NEW_ISSUE_FORM }),
  )
  scope.get(`${WORKSPACES}/:workspaceId/keys/:keyId/issued`, SHOWS, async (request, reply) => {
    const { record } = await keyOf(request, sources.registry)
    const { workspaceId } = record
    const frame = frameOf(request, reply, { workspaceId, clock: sources.registry.clock })
    return sendPage(reply, alreadyDonePage(frame, { record }))
  })
  scope.post(PATH, CHANGES, (request, reply) => issue(sources, request, reply))
}

async function issue(
  sources: KeyPageParts,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const { registry, count } = sources
  const workspaceId = workspaceOf(request)
  const form = readIssueForm(fieldsOf(request))
  const checked = checkIssueForm(form, registry.knownScopes, registry.clock.wallMs())
  if (!checked.ok) return showForm(sources, request, reply, { form, problems: checked.problems })
  const context = readFormContext(request, ['issue', { workspaceId }, form])
  if (context === null) return showForm(sources, request, reply, { form, notice: FORM_NOTICES.incomplete })
  const result = await count('issue', () => issueKey(registry, checked.request, workspaceId, context))
  if (result.kind !== 'done') return showForm(sources, request, reply, { form, ...explain(result) })
  const { record, secret } = result
  request.keyId = record.id
  const frame = frameOf(request, reply, { workspaceId, clock: registry.clock })
  if (secret === null) return sendPage(reply, alreadyDonePage(frame, { record }))
  const key = viewAfter(record, null, registry)
  return sendPage(
    reply,
    secretPage(frame, { key, replaced: null, ...shownSecret(sources, key, secret.reveal()) }),
  )
}

/** A secret with examples that use it. */
export function shownSecret(
  { routes, gatewayUrl }: KeyPageParts,
  { record }: { readonly record: Parameters<typeof firstEndpoint>[0] },
  secret: string,
) {
  const examples = codeExamples(firstEndpoint(record, routes, gatewayUrl))
  return { secret, examples, needsAddress: gatewayUrl === null }
}

interface FormAgain {
  readonly form: IssueForm
  readonly problems?: Problems
  readonly notice?: string | null
}

function showForm(
  { registry, scopes }: KeyPageParts,
  request: FastifyRequest,
  reply: FastifyReply,
  { form, problems = NO_PROBLEMS, notice = null }: FormAgain,
): FastifyReply {
  const workspaceId = workspaceOf(request)
  const frame = frameOf(request, reply, { workspaceId, clock: registry.clock })
  const onceToken = newOnceToken(registry.randomBytes)
  const page = issuePage(frame, { workspaceId, scopes, form, problems, onceToken, notice })
  return sendPage(reply, page, request.method === 'POST' ? 422 : 200)
}

/** A valid form that the registry rejects, for example because settings changed meanwhile. */
function explain(problem: OperationRejection): Omit<FormAgain, 'form'> {
  switch (problem.kind) {
    case 'invalid':
      return { problems: new Map([[fieldOf(problem.field), `This must be ${problem.expected}`]]) }
    case 'other_request':
      return { notice: FORM_NOTICES.reused }
    case 'unknown_key':
    case 'not_active':
    case 'final':
    case 'other_version':
      throw notFound()
  }
}

/** The form's name for a field of the registry. */
export function fieldOf(field: string): string {
  const names: Readonly<Record<string, string>> = {
    expiresAt: 'date',
    expiresInDays: 'expiry',
    overlapSeconds: 'overlap',
  }
  return names[field] ?? field
}
