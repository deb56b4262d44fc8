import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { type AdminToken, tokenProblem } from '../platform/access/admin-token.ts'
import { ago, cell, dateText, type Html, hintHtml, html, markInvisible } from '../platform/html/html.ts'
import { type Frame, page } from '../platform/html/layout.ts'
import { ADMINISTRATION, readCursor, sendPage } from '../platform/html/page-request.ts'
import { NEW_TOKEN, revokeTokenPath, TOKENS, tokensPath } from '../platform/html/paths.ts'
import { requirePrincipal } from '../platform/http/request-context.ts'
import type { TokenPage } from './rows.ts'
import { TITLE, type TokenPageParts, tokenFrame, workspacesText } from './token-view.ts'

const PAGE_SIZE = 50

/** For administrators: the admin tokens of programs. */
export function tokenListRoutes(scope: FastifyInstance, parts: TokenPageParts): void {
  scope.get(TOKENS, ADMINISTRATION, (request, reply) => showTokens(parts, request, reply))
}

async function showTokens(
  parts: TokenPageParts,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const afterId = readCursor(request)
  const found = await parts.tokens.list(requirePrincipal(request), { limit: PAGE_SIZE, afterId })
  return sendPage(reply, tokensPage(tokenFrame(parts, request, reply), found, afterId === null))
}

function tokensPage(frame: Frame, { tokens, nextAfterId }: TokenPage, isFirstPage: boolean): Html {
  const main = html`<div class="title"><h1>${TITLE}</h1>
      <div class="actions"><a class="button primary" href="${NEW_TOKEN}">Make a token</a></div></div>
    <p class="lead">Programs use the admin API with them. Give each program one of its own, with the permissions and workspaces that it needs.</p>
    ${tokens.length === 0 ? html`<p class="empty">${isFirstPage ? 'No token was made yet.' : 'No more tokens.'}</p>` : table(tokens, frame.nowMs)}
    ${paging(nextAfterId, isFirstPage)}`
  return page(frame, { title: TITLE, section: null, main })
}

function table(tokens: readonly AdminToken[], nowMs: number): Html {
  return html`<table class="stacks">
    <caption class="hidden">Admin tokens, newest first</caption>
    <thead><tr><th scope="col">Name</th><th scope="col">State</th><th scope="col">Permissions</th><th scope="col">Workspaces</th><th scope="col">Created</th><th scope="col">Expires</th><th scope="col">Last used</th><th scope="col"><span class="hidden">Action</span></th></tr></thead>
    <tbody>${tokens.map(token => row(token, nowMs))}</tbody>
  </table>`
}

const STATES = {
  active: { label: 'Active', badge: 'active' },
  expired: { label: 'Expired', badge: 'expired' },
  revoked: { label: 'Revoked', badge: 'revoked' },
} as const

function row(token: AdminToken, nowMs: number): Html {
  const { permissions, createdAtMs, createdBy, expiresAtMs } = token
  const problem = tokenProblem(token, nowMs)
  const { label, badge } = STATES[problem ?? 'active']
  const expires = html`${dateText(expiresAtMs)} ${problem === null ? html`<span class="muted small">${ago(expiresAtMs, nowMs)}</span>` : null}`
  const codes = permissions.map(permission => html`<li><code>${permission}</code></li>`)
  return html`<tr${problem === null ? null : html` class="dead"`}>
    <th scope="row"><span class="breaks">${markInvisible(token.name)}</span> ${hintHtml(token)}</th>
    ${cell('State', html`<span class="badge ${badge}">${label}</span>`)}
    ${cell('Permissions', html`<ul class="scopes">${codes}</ul>`)}
    ${cell('Workspaces', html`<span class="breaks">${workspacesText(token)}</span>`)}
    ${cell('Created', html`<span class="breaks">${dateText(createdAtMs)} by ${markInvisible(createdBy)}</span>`)}
    ${cell('Expires', expires)}
    ${cell('Last used', lastUse(token, nowMs))}
    <td>${problem === null ? html`<a href="${revokeTokenPath(token.id)}">Revoke<span class="hidden"> ${markInvisible(token.name)}</span></a>` : null}</td>
  </tr>`
}

function lastUse({ lastUsedAtMs }: AdminToken, nowMs: number): Html {
  return lastUsedAtMs === null ? html`<span class="muted">Never used</span>` : ago(lastUsedAtMs, nowMs)
}

function paging(nextCursor: string | null, isFirstPage: boolean): Html | null {
  if (isFirstPage && nextCursor === null) return null
  return html`<nav class="paging" aria-label="Pages">
    ${isFirstPage ? null : html`<a class="button" href="${TOKENS}">Newest tokens</a>`}
    ${nextCursor === null ? null : html`<a class="button" rel="next" href="${tokensPath(nextCursor)}">Older tokens</a>`}
  </nav>`
}
