import type { FastifyInstance, FastifyReply } from 'fastify'
import type { IssueRequest } from '../../domain/key/key-life.ts'
import {
  type CheckedForm,
  type FormFields,
  formTroubles,
  group,
  hidden,
  listField,
  NO_PROBLEMS,
  option,
  type ShownForm,
} from '../platform/html/form-parts.ts'
import { type Html, html } from '../platform/html/html.ts'
import { type Frame, page } from '../platform/html/layout.ts'
import {
  DEFAULT_EXPIRY,
  decideExpiry,
  type ExpiryChoice,
  findNameProblem,
  readExpiryChoice,
} from '../platform/html/name-and-expiry.ts'
import {
  CHANGE_FORMS,
  CHANGES,
  createFrame,
  FORM_NOTICES,
  newOnceToken,
  readFormContext,
  readFormFields,
  requireWorkspace,
  SHOWS,
  sendPage,
} from '../platform/html/page-request.ts'
import { keysPath, newKeyPath, WORKSPACES } from '../platform/html/paths.ts'
import {
  BLANK_FORM,
  type ChosenForm,
  keyExpiryField,
  nameInput,
  readChosenForm,
  requestedFields,
  restrictionInputs,
  textInputs,
} from './key-form.ts'
import { type KeyPageParts, requireKey } from './key-view.ts'
import { issueKey } from './operations/key-operations.ts'
import { withPlanChoice } from './plan-choice.ts'
import { alreadyDonePage, explainRejection, sendSecret } from './secret-page.ts'

const PATH = `${WORKSPACES}/:workspaceId/keys/new`

export function issueRoutes(scope: FastifyInstance, sources: KeyPageParts): void {
  scope.get(PATH, CHANGE_FORMS, async (request, reply) => {
    const plan = await sources.registry.plans.findPlan(requireWorkspace(request))
    return showForm(sources, reply, { form: { ...NEW_ISSUE_FORM, plan: plan ?? '' } })
  })
  scope.get(`${WORKSPACES}/:workspaceId/keys/:keyId/issued`, SHOWS, async (request, reply) => {
    const { record } = await requireKey(request, sources.registry)
    const { workspaceId } = record
    const frame = createFrame(reply, { workspaceId, clock: sources.registry.clock })
    return sendPage(reply, alreadyDonePage(frame, record))
  })
  scope.post(PATH, CHANGES, (_, reply) => issue(sources, reply))
}

async function issue(sources: KeyPageParts, reply: FastifyReply): Promise<FastifyReply> {
  const { request } = reply
  const { registry } = sources
  const workspaceId = requireWorkspace(request)
  const form = readIssueForm(readFormFields(request))
  const checked = checkIssueForm(form, registry.knownScopes, registry.clock.wallMs())
  if (!checked.ok) return showForm(sources, reply, { form, problems: checked.problems })
  const context = readFormContext(request, ['issue', { workspaceId }, form])
  if (context === null) return showForm(sources, reply, { form, notice: FORM_NOTICES.incomplete })
  const result = await issueKey(registry, withPlanChoice(request, checked.request), workspaceId, context)
  if (result.kind === 'done') return sendSecret(sources, reply, result, null)
  return showForm(sources, reply, { form, ...explainRejection(result) })
}

function showForm(
  { registry, scopes }: KeyPageParts,
  reply: FastifyReply,
  { form, problems = NO_PROBLEMS, notice = null }: ShownForm<IssueForm>,
): FastifyReply {
  const workspaceId = requireWorkspace(reply.request)
  const frame = createFrame(reply, { workspaceId, clock: registry.clock })
  const onceToken = newOnceToken(registry.randomBytes)
  const { knownPlans } = registry
  const page = issuePage(frame, { workspaceId, knownPlans, scopes, form, problems, onceToken, notice })
  return sendPage(reply, page, reply.request.method === 'POST' ? 422 : 200)
}

/** The form as received. */
interface IssueForm extends ChosenForm, ExpiryChoice {
  readonly scopes: readonly string[]
}

export const NEW_ISSUE_FORM: IssueForm = { ...BLANK_FORM, scopes: [], ...DEFAULT_EXPIRY }

export function readIssueForm(fields: FormFields): IssueForm {
  return {
    ...readChosenForm(fields),
    scopes: listField(fields, 'scopes'),
    ...readExpiryChoice(fields),
  }
}

/** Reports all problems at once. The registry validates again, and alone checks texts and networks. */
export function checkIssueForm(
  { scopes, expiry, date, ...chosen }: IssueForm,
  knownScopes: readonly string[],
  nowMs: number,
): CheckedForm<IssueRequest> {
  const decided = decideExpiry({ expiry, date }, nowMs)
  const nameProblem = findNameProblem(chosen.name)
  const problems = new Map<string, string>()
  if (nameProblem !== null) problems.set('name', nameProblem)
  if (scopes.length === 0) problems.set('scopes', 'Choose at least one scope')
  else if (!scopes.every(scope => knownScopes.includes(scope))) {
    problems.set('scopes', 'A chosen scope no longer exists. Choose from these')
  }
  if (!decided.ok) for (const [field, text] of decided.problems) problems.set(field, text)
  if (problems.size > 0 || !decided.ok) return { ok: false, problems }
  return { ok: true, request: { ...requestedFields(chosen), scopes, ...decided.expiry } }
}

interface IssueView extends Required<ShownForm<IssueForm>> {
  readonly workspaceId: string
  readonly knownPlans: readonly string[]
  /** Each with a description of what it grants. */
  readonly scopes: Readonly<Record<string, string>>
  /** Makes a form that is submitted twice one request. */
  readonly onceToken: string
}

function issuePage(frame: Frame, view: IssueView): Html {
  const { workspaceId, form, problems, onceToken } = view
  const nameHint = 'The program that uses the key, such as “build server” or “importer, staging”'
  const main = html`<p class="back"><a href="${keysPath(workspaceId)}">Keys</a></p>
    <h1>Issue a key</h1>
    <p class="lead">For workspace <strong>${workspaceId}</strong> only. The next page shows the secret once.</p>
    ${formTroubles(view)}
    <form class="card" method="post" action="${newKeyPath(workspaceId)}" novalidate>
      ${hidden({ _csrf: frame.csrfToken, once: onceToken })}
      ${nameInput(form, problems, nameHint)}
      ${textInputs(form, problems)}
      ${scopeField(view)}
      ${keyExpiryField('Expiry', form, problems, frame.nowMs)}
      ${restrictionInputs(form, problems, frame.isAdministrator ? view.knownPlans : null)}
      <div class="actions"><button class="primary">Issue key</button> <a href="${keysPath(workspaceId)}">Cancel</a></div>
    </form>`
  return page(frame, { title: 'Issue a key', section: 'keys', main, isWrong: problems.size > 0 })
}

function scopeField({ scopes, form, problems }: IssueView): Html {
  const boxes = Object.entries(scopes).map(([scope, grants]) =>
    option({
      type: 'checkbox',
      name: 'scopes',
      value: scope,
      checked: form.scopes.includes(scope),
      label: html`<code>${scope}</code>`,
      hint: grants,
    }),
  )
  const hint = 'Choose only what the program needs. Rotation keeps the scopes'
  return group({ name: 'scopes', label: 'Scopes', hint, problems }, boxes)
}
