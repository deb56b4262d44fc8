import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Clock } from '../../domain/clock.ts'
import { isId } from '../../domain/id-form.ts'
import type { AdminToken } from '../platform/access/principal.ts'
import type { RandomBytes } from '../platform/database/ids.ts'
import { confirmForm } from '../platform/html/form-parts.ts'
import {
  actorName,
  ago,
  cell,
  copyable,
  dateText,
  fact,
  type Html,
  hintHtml,
  html,
  instantAndAgo,
  lastUsed,
  markInvisible,
  pageLinks,
} from '../platform/html/html.ts'
import { type Frame, page } from '../platform/html/layout.ts'
import {
  ADMINISTRATION,
  ADMINISTRATION_CHANGES,
  createFrame,
  notFound,
  readCursor,
  sendPage,
} from '../platform/html/page-request.ts'
import { auditPath, NEW_TOKEN, revokeTokenPath, TOKENS, tokensPath } from '../platform/html/paths.ts'
import { describeCaller, readParameter, requirePrincipal } from '../platform/http/request-context.ts'
import { type AdminTokens, tokenProblem } from './operations.ts'
import type { TokenPage } from './rows.ts'

export const TITLE = 'Admin tokens'
/** Of a token's up to 1000 workspaces, which would fill the page. */
const WORKSPACES_SHOWN = 3

export interface TokenPageParts {
  readonly tokens: AdminTokens
  readonly clock: Clock
  readonly randomBytes: RandomBytes
}

export function tokenFrame({ clock }: TokenPageParts, reply: FastifyReply): Frame {
  return createFrame(reply, { workspaceId: null, clock })
}

export function tokenFacts(token: AdminToken, nowMs: number): Html {
  return html`<dl class="facts">
    ${fact('Permissions', token.permissions.join(', '))}
    <div><dt>Workspaces</dt><dd class="breaks">${workspacesText(token)}</dd></div>
    ${fact('Expires', instantAndAgo(token.expiresAtMs, nowMs))}
  </dl>`
}

function workspacesText({ workspaces }: AdminToken): string {
  if (workspaces === null) return 'All'
  const more = workspaces.length - WORKSPACES_SHOWN
  return `${workspaces.slice(0, WORKSPACES_SHOWN).join(', ')}${more > 0 ? ` and ${more} more` : ''}`
}

export function backToTokens(): Html {
  return html`<p class="back"><a href="${TOKENS}">${TITLE}</a></p>`
}

const PAGE_SIZE = 50

/** For administrators: the admin tokens of programs, and revoking one after a question. */
export function tokenRoutes(scope: FastifyInstance, parts: TokenPageParts): void {
  const revocation = `${TOKENS}/:tokenId/revoke`
  scope.get(TOKENS, ADMINISTRATION, (_, reply) => showTokens(parts, reply))
  scope.get(revocation, ADMINISTRATION, (_, reply) => showConfirmation(parts, reply))
  scope.post(revocation, ADMINISTRATION_CHANGES, (_, reply) => revokeToken(parts, reply))
}

async function showTokens(parts: TokenPageParts, reply: FastifyReply): Promise<FastifyReply> {
  const { request } = reply
  const afterId = readCursor(request, 'tok')
  const found = await parts.tokens.list(requirePrincipal(request), { limit: PAGE_SIZE, afterId })
  return sendPage(reply, tokensPage(tokenFrame(parts, reply), found, afterId === null))
}

function tokensPage(frame: Frame, { tokens, nextAfterId }: TokenPage, isFirstPage: boolean): Html {
  const main = html`<div class="title"><h1>${TITLE}</h1>
      <div class="actions"><a class="button primary" href="${NEW_TOKEN}">Make a token</a></div></div>
    <p class="lead">Programs use the admin API with them. Give each program one of its own, with the permissions and workspaces that it needs.</p>
    ${tokens.length === 0 ? html`<p class="empty">${isFirstPage ? 'No token was made yet.' : 'No more tokens.'}</p>` : table(tokens, frame.nowMs)}
    ${pageLinks({ nextCursor: nextAfterId, isFirstPage }, tokensPath, { first: 'Newest tokens', next: 'Older tokens' })}`
  return page(frame, { title: TITLE, section: null, main })
}

function table(tokens: readonly AdminToken[], nowMs: number): Html {
  return html`<table class="stacks">
    <caption class="hidden">Admin tokens, newest first</caption>
    <thead><tr><th scope="col">Name</th><th scope="col">State</th><th scope="col">Permissions</th><th scope="col">Workspaces</th><th scope="col">Created</th><th scope="col">Expires</th><th scope="col">Last used</th><th scope="col"><span class="hidden">Actions</span></th></tr></thead>
    <tbody>${tokens.map(token => row(token, nowMs))}</tbody>
  </table>`
}

const STATE_LABELS = { active: 'Active', expired: 'Expired', revoked: 'Revoked' } as const

function row(token: AdminToken, nowMs: number): Html {
  const { permissions, createdAtMs, createdBy, expiresAtMs } = token
  const problem = tokenProblem(token, nowMs)
  const state = problem ?? 'active'
  const expires = html`${dateText(expiresAtMs)}${problem === null ? html`<br><span class="muted small">${ago(expiresAtMs, nowMs)}</span>` : null}`
  const codes = permissions.map(permission => html`<li><code>${permission}</code></li>`)
  return html`<tr${problem === null ? null : html` class="dead"`}>
    <th scope="row"><span class="breaks">${markInvisible(token.name)}</span> ${hintHtml(token)} <span class="small">${copyable(`id-${token.id}`, token.id)}</span></th>
    ${cell('State', html`<span class="badge ${state}">${STATE_LABELS[state]}</span>`)}
    ${cell('Permissions', html`<ul class="scopes">${codes}</ul>`)}
    ${cell('Workspaces', html`<span class="breaks">${workspacesText(token)}</span>`)}
    ${cell('Created', html`<span class="breaks">${dateText(createdAtMs)} by ${actorName(createdBy, null)}</span>`)}
    ${cell('Expires', expires)}
    ${cell('Last used', lastUsed(token, nowMs))}
    <td>${actions(token, problem === null)}</td>
  </tr>`
}

/** What the token did, under the name that the audit log has for it. */
function actions({ id, name }: AdminToken, works: boolean): Html {
  const shown = markInvisible(name)
  const audit = html`<a href="${auditPath(null, { actor: `token:${id}` })}">Audit<span class="hidden"> of ${shown}</span></a>`
  return html`${audit}${works ? html`<br><a href="${revokeTokenPath(id)}">Revoke<span class="hidden"> ${shown}</span></a>` : null}`
}

/** Redirects for a token that works no longer: there is nothing to revoke. */
async function showConfirmation(parts: TokenPageParts, reply: FastifyReply): Promise<FastifyReply> {
  const { request } = reply
  const token = await parts.tokens.find(requirePrincipal(request), readTokenId(request))
  if (token === null) throw notFound()
  if (tokenProblem(token, parts.clock.wallMs()) !== null) return reply.redirect(TOKENS, 303)
  return sendPage(reply, revokePage(tokenFrame(parts, reply), token))
}

/** Submitted twice, the second request changes nothing. */
async function revokeToken({ tokens }: TokenPageParts, reply: FastifyReply): Promise<FastifyReply> {
  const { request } = reply
  const context = { caller: describeCaller(request), idempotency: null }
  const result = await tokens.revoke(requirePrincipal(request), readTokenId(request), context)
  if (result.kind !== 'done') throw notFound()
  return reply.redirect(TOKENS, 303)
}

function readTokenId(request: FastifyRequest): string {
  const tokenId = readParameter(request, 'tokenId')
  if (!isId('tok', tokenId)) throw notFound()
  return tokenId
}

function revokePage(frame: Frame, token: AdminToken): Html {
  const { lastUsedAtMs } = token
  const use =
    lastUsedAtMs === null ? 'It was never used.' : html`It was last used ${ago(lastUsedAtMs, frame.nowMs)}.`
  const about = html`<p><strong>${use}</strong> The program that uses it gets 401 from now on.</p>`
  const action = revokeTokenPath(token.id)
  const main = html`${backToTokens()}
    <h1>Revoke token</h1>
    <p class="lead breaks">${markInvisible(token.name)}, ${hintHtml(token)}. It stops working at once. This cannot be undone.</p>
    <div class="card">${confirmForm(frame, { action, about, button: 'Revoke now', keepPath: TOKENS })}
      ${tokenFacts(token, frame.nowMs)}</div>`
  return page(frame, { title: 'Revoke token', section: null, main })
}
