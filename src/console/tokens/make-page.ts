import type { FastifyInstance, FastifyReply } from 'fastify'
import { MAX_NAME_LENGTH } from '../../domain/key/key-fields.ts'
import { isWorkspaceId, WORKSPACE_ID_EXPECTED } from '../../domain/key/key-record.ts'
import { type AdminToken, PERMISSIONS, type Permission } from '../platform/access/principal.ts'
import {
  type CheckedForm,
  describeRejectedField,
  type FormFields,
  formTroubles,
  group,
  hidden,
  listField,
  NO_PROBLEMS,
  option,
  type Problems,
  readLines,
  type ShownForm,
  select,
  splitList,
  textArea,
  textField,
  textInput,
} from '../platform/html/form-parts.ts'
import { type Html, hintHtml, html, markInvisible, secretCard } from '../platform/html/html.ts'
import { type Frame, page } from '../platform/html/layout.ts'
import {
  DEFAULT_EXPIRY,
  decideExpiry,
  type ExpiryChoice,
  expiryField,
  findNameProblem,
  readExpiryChoice,
} from '../platform/html/name-and-expiry.ts'
import {
  ADMINISTRATION,
  ADMINISTRATION_CHANGES,
  FORM_NOTICES,
  newOnceToken,
  readFormContext,
  readFormFields,
  sendPage,
} from '../platform/html/page-request.ts'
import { NEW_TOKEN, TOKEN_MADE, TOKENS } from '../platform/html/paths.ts'
import { requirePrincipal } from '../platform/http/request-context.ts'
import { MAX_TOKEN_WORKSPACES, type TokenRequest, type TokenResult } from './operations.ts'
import { backToTokens, TITLE, type TokenPageParts, tokenFacts, tokenFrame } from './pages.ts'

/** Making an admin token, whose secret is in the answer to the form alone. */
export function makeTokenRoutes(scope: FastifyInstance, parts: TokenPageParts): void {
  scope.get(NEW_TOKEN, ADMINISTRATION, (_, reply) => showForm(parts, reply, { form: NEW_TOKEN_FORM }))
  scope.post(NEW_TOKEN, ADMINISTRATION_CHANGES, (_, reply) => makeToken(parts, reply))
  scope.get(TOKEN_MADE, ADMINISTRATION, async (_, reply) =>
    sendPage(reply, alreadyMadePage(tokenFrame(parts, reply))),
  )
}

function showForm(
  parts: TokenPageParts,
  reply: FastifyReply,
  { form, problems = NO_PROBLEMS, notice = null }: ShownForm<TokenForm>,
): FastifyReply {
  const shown = { form, problems, notice }
  const page = formPage(tokenFrame(parts, reply), shown, newOnceToken(parts.randomBytes))
  return sendPage(reply, page, reply.request.method === 'POST' ? 422 : 200)
}

async function makeToken(parts: TokenPageParts, reply: FastifyReply): Promise<FastifyReply> {
  const { request } = reply
  const form = readTokenForm(readFormFields(request))
  const checked = checkTokenForm(form, parts.clock.wallMs())
  if (!checked.ok) return showForm(parts, reply, { form, problems: checked.problems })
  const context = readFormContext(request, ['token', {}, form])
  if (context === null) return showForm(parts, reply, { form, notice: FORM_NOTICES.incomplete })
  const result = await parts.tokens.issue(requirePrincipal(request), checked.request, context)
  if (result.kind !== 'done') return showForm(parts, reply, { form, ...explainRejection(result) })
  const frame = tokenFrame(parts, reply)
  if (result.secret === null) return sendPage(reply, alreadyMadePage(frame))
  return sendPage(reply, secretPage(frame, result.token, result.secret.reveal()))
}

function explainRejection(result: Exclude<TokenResult, { kind: 'done' }>): Omit<ShownForm<unknown>, 'form'> {
  switch (result.kind) {
    case 'invalid':
      return { problems: describeRejectedField(result) }
    case 'other_request':
      return {
        notice:
          'This form was already submitted with other values. Nothing was changed. Submit it again to make another token.',
      }
    case 'exceeds':
    case 'unknown_token':
      throw new Error(`A token of an administrator was rejected as ${result.kind}`)
  }
}

function formPage(frame: Frame, shown: Required<ShownForm<TokenForm>>, once: string): Html {
  const { form, problems } = shown
  const title = 'Make an admin token'
  const main = html`${backToTokens()}
    <h1>${title}</h1>
    <p class="lead">For a program that uses the admin API. The next page shows the secret once.</p>
    ${formTroubles(shown)}
    <form class="card" method="post" action="${NEW_TOKEN}" novalidate>
      ${hidden({ _csrf: frame.csrfToken, once })}
      ${tokenInputs(form, problems, frame.nowMs)}
      <div class="actions"><button class="primary">Make token</button> <a href="${TOKENS}">Cancel</a></div>
    </form>`
  return page(frame, { title, section: null, main, isWrong: problems.size > 0 })
}

function secretPage(frame: Frame, token: AdminToken, secret: string): Html {
  const advice = 'Postern stores only its digest. If you lose the secret, revoke the token and make another.'
  const main = html`<h1>Your new admin token</h1>
    <p class="lead">${markInvisible(token.name)}, ${hintHtml(token)}</p>
    ${secretCard(secret, { back: TOKEN_MADE, advice })}
    <section class="card"><h2>Details</h2>${tokenFacts(token, frame.nowMs)}</section>
    <p class="actions"><a class="button primary" href="${TOKENS}">I have saved it</a></p>`
  return page(frame, { title: 'Copy the secret', section: null, main })
}

/** For a form that was submitted twice, and for going back or reloading: the token exists, its secret is gone. */
function alreadyMadePage(frame: Frame): Html {
  const main = html`<h1>Token already made</h1>
    <div class="card">
      <p>Its secret was shown once and is no longer available. Reloading a page or going back makes no other token.</p>
      <p>If you did not save the secret, revoke the token and make another.</p>
      <p class="actions"><a class="button primary" href="${TOKENS}">${TITLE}</a></p>
    </div>`
  return page(frame, { title: 'Already made', section: null, main })
}

/** Permissions that are often given together. */
const TEMPLATES = {
  read: { label: 'Read only', permissions: ['keys:read', 'audit:read'] },
  keys: { label: 'Issue and rotate keys', permissions: ['keys:write'] },
  everything: { label: 'Everything', permissions: PERMISSIONS },
  none: { label: 'Only those ticked below', permissions: [] },
} as const satisfies Readonly<Record<string, { label: string; permissions: readonly Permission[] }>>

const ALLOWS = {
  'keys:read': 'Read keys, their usage and rejections, and webhook deliveries',
  'keys:write': 'Also issue, import, edit, rotate, suspend, resume and revoke keys',
  'audit:read': 'Read the audit log',
  'tokens:write': 'Make, list and revoke admin tokens, with no more rights than its own',
} satisfies Readonly<Record<Permission, string>>

/** The form as received. */
interface TokenForm extends ExpiryChoice {
  readonly name: string
  readonly template: string
  /** Beside those of the template. */
  readonly permissions: readonly string[]
  readonly workspaces: string
}

const NEW_TOKEN_FORM: TokenForm = {
  name: '',
  template: 'read',
  permissions: [],
  workspaces: '',
  ...DEFAULT_EXPIRY,
}

function readTokenForm(fields: FormFields): TokenForm {
  return {
    name: textField(fields, 'name').trim(),
    template: textField(fields, 'template'),
    permissions: listField(fields, 'permissions'),
    workspaces: readLines(fields, 'workspaces'),
    ...readExpiryChoice(fields),
  }
}

/** Reports all problems at once. The operation validates again. */
function checkTokenForm(form: TokenForm, nowMs: number): CheckedForm<TokenRequest> {
  const problems = new Map<string, string>()
  const nameProblem = findNameProblem(form.name)
  if (nameProblem !== null) problems.set('name', nameProblem)
  const permissions = chosenPermissions(form)
  if (permissions.length === 0) problems.set('permissions', 'Choose at least one permission')
  const workspaces = splitList(form.workspaces)
  const wrong = workspaces.find(id => !isWorkspaceId(id))
  if (wrong !== undefined) problems.set('workspaces', `A workspace id has ${WORKSPACE_ID_EXPECTED}`)
  if (workspaces.length > MAX_TOKEN_WORKSPACES) {
    problems.set(
      'workspaces',
      `Name at most ${MAX_TOKEN_WORKSPACES} workspaces; these are ${workspaces.length}`,
    )
  }
  const expiry = decideExpiry(form, nowMs)
  if (!expiry.ok) for (const [field, text] of expiry.problems) problems.set(field, text)
  if (problems.size > 0 || !expiry.ok) return { ok: false, problems }
  const confined = workspaces.length === 0 ? {} : { workspaces }
  return { ok: true, request: { name: form.name, permissions, ...confined, ...expiry.expiry } }
}

/** Those of the template and those that are ticked; what is no permission is for the operation to reject. */
function chosenPermissions({ template, permissions }: TokenForm): readonly string[] {
  const given = Object.entries(TEMPLATES).find(([name]) => name === template)?.[1].permissions ?? []
  return [...new Set<string>([...given, ...permissions])]
}

function tokenInputs(form: TokenForm, problems: Problems, nowMs: number): Html {
  const nameHint = 'The program that uses the token, such as “deploy pipeline”. The audit log shows it'
  const workspacesHint =
    'Ids, one per line. The token sees no other workspace. Leave it empty for all, also those to come'
  const expiryHint = 'A token cannot be extended: make the next one before it expires'
  return html`${textInput({ name: 'name', label: 'Name', hint: nameHint, problems }, form.name, html`type="text" maxlength="${MAX_NAME_LENGTH * 2}" required`)}
    ${permissionInputs(form, problems)}
    ${textArea({ name: 'workspaces', label: 'Workspaces', hint: workspacesHint, problems }, form.workspaces)}
    ${expiryField({ label: 'Expiry', hint: expiryHint, problems }, form, nowMs)}`
}

function permissionInputs(form: TokenForm, problems: Problems): Html {
  const templates = Object.entries(TEMPLATES).map(([value, { label, permissions }]) => ({
    value,
    label: permissions.length === 0 ? label : `${label}: ${permissions.join(', ')}`,
  }))
  const boxes = PERMISSIONS.map(permission =>
    option({
      type: 'checkbox',
      name: 'permissions',
      value: permission,
      checked: form.permissions.includes(permission),
      label: html`<code>${permission}</code>`,
      hint: ALLOWS[permission],
    }),
  )
  const hint = 'Added to those of the choice above'
  return html`${select({ name: 'template', label: 'Permissions', value: form.template, options: templates, hint: 'Choose only what the program needs' })}
    ${group({ name: 'permissions', label: 'Single permissions', hint, problems }, boxes)}`
}
