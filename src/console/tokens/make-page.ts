import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { AdminToken } from '../platform/access/principal.ts'
import { errorSummary, hidden, NO_PROBLEMS, type Problems } from '../platform/html/form-parts.ts'
import { type Html, hintHtml, html, markInvisible, secretCard } from '../platform/html/html.ts'
import { type Frame, page } from '../platform/html/layout.ts'
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
import type { TokenResult } from './operations.ts'
import { backToTokens, TITLE, type TokenPageParts, tokenFacts, tokenFrame } from './pages.ts'
import { checkTokenForm, NEW_TOKEN_FORM, readTokenForm, type TokenForm, tokenInputs } from './token-form.ts'

/** Making an admin token, whose secret is in the answer to the form alone. */
export function makeTokenRoutes(scope: FastifyInstance, parts: TokenPageParts): void {
  scope.get(NEW_TOKEN, ADMINISTRATION, (request, reply) =>
    showForm(parts, request, reply, { form: NEW_TOKEN_FORM }),
  )
  scope.post(NEW_TOKEN, ADMINISTRATION_CHANGES, (request, reply) => makeToken(parts, request, reply))
  scope.get(TOKEN_MADE, ADMINISTRATION, async (request, reply) =>
    sendPage(reply, alreadyMadePage(tokenFrame(parts, request, reply))),
  )
}

interface ShownForm {
  readonly form: TokenForm
  readonly problems?: Problems
  /** Why a form without problems is shown again. */
  readonly notice?: string
}

function showForm(
  parts: TokenPageParts,
  request: FastifyRequest,
  reply: FastifyReply,
  shown: ShownForm,
): FastifyReply {
  const page = formPage(tokenFrame(parts, request, reply), shown, newOnceToken(parts.randomBytes))
  return sendPage(reply, page, request.method === 'POST' ? 422 : 200)
}

async function makeToken(
  parts: TokenPageParts,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const form = readTokenForm(readFormFields(request))
  const checked = checkTokenForm(form, parts.clock.wallMs())
  if (!checked.ok) return showForm(parts, request, reply, { form, problems: checked.problems })
  const context = readFormContext(request, ['token', {}, form])
  if (context === null) return showForm(parts, request, reply, { form, notice: FORM_NOTICES.incomplete })
  const result = await parts.tokens.issue(requirePrincipal(request), checked.request, context)
  if (result.kind !== 'done') return showForm(parts, request, reply, { form, ...explainRejection(result) })
  const frame = tokenFrame(parts, request, reply)
  if (result.secret === null) return sendPage(reply, alreadyMadePage(frame))
  return sendPage(reply, secretPage(frame, result.token, result.secret.reveal()))
}

function explainRejection(result: Exclude<TokenResult, { kind: 'done' }>): Omit<ShownForm, 'form'> {
  switch (result.kind) {
    case 'invalid':
      return {
        problems: new Map([[FORM_NAMES[result.field] ?? result.field, `This must be ${result.expected}`]]),
      }
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

/** The form's names for fields of the operation, where they differ. */
const FORM_NAMES: Readonly<Record<string, string>> = { expiresAt: 'date', expiresInDays: 'expiry' }

function formPage(frame: Frame, { form, problems = NO_PROBLEMS, notice }: ShownForm, once: string): Html {
  const title = 'Make an admin token'
  const main = html`${backToTokens()}
    <h1>${title}</h1>
    <p class="lead">For a program that uses the admin API. The next page shows the secret once.</p>
    ${errorSummary(problems)}
    ${notice === undefined ? null : html`<p class="notice warn" role="alert">${notice}</p>`}
    <form class="card" method="post" action="${NEW_TOKEN}" novalidate>
      ${hidden({ _csrf: frame.csrfToken, once })}
      ${tokenInputs(form, problems, frame.nowMs)}
      <div class="actions"><button class="primary">Make token</button> <a href="${TOKENS}">Cancel</a></div>
    </form>`
  return page(frame, { title: problems.size > 0 ? `Error: ${title}` : title, section: null, main })
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
