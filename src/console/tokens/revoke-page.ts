import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { type AdminToken, isTokenId, tokenProblem } from '../platform/access/admin-token.ts'
import { confirmForm } from '../platform/html/form-parts.ts'
import { ago, type Html, hintHtml, html, markInvisible } from '../platform/html/html.ts'
import { type Frame, page } from '../platform/html/layout.ts'
import { ADMINISTRATION, ADMINISTRATION_CHANGES, notFound, sendPage } from '../platform/html/page-request.ts'
import { revokeTokenPath, TOKENS } from '../platform/html/paths.ts'
import { describeCaller, requirePrincipal } from '../platform/http/request-context.ts'
import { backToTokens, type TokenPageParts, tokenFacts, tokenFrame } from './token-view.ts'

/** Revoking an admin token, after a question. */
export function revokeTokenRoutes(scope: FastifyInstance, parts: TokenPageParts): void {
  const path = `${TOKENS}/:tokenId/revoke`
  scope.get(path, ADMINISTRATION, (request, reply) => showConfirmation(parts, request, reply))
  scope.post(path, ADMINISTRATION_CHANGES, (request, reply) => revokeToken(parts, request, reply))
}

/** Redirects for a token that works no longer: there is nothing to revoke. */
async function showConfirmation(
  parts: TokenPageParts,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const token = await parts.tokens.find(requirePrincipal(request), readTokenId(request))
  if (token === null) throw notFound()
  if (tokenProblem(token, parts.clock.wallMs()) !== null) return reply.redirect(TOKENS, 303)
  return sendPage(reply, revokePage(tokenFrame(parts, request, reply), token))
}

/** Submitted twice, the second request changes nothing. */
async function revokeToken(
  { tokens }: TokenPageParts,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const context = { caller: describeCaller(request), idempotency: null }
  const result = await tokens.revoke(requirePrincipal(request), readTokenId(request), context)
  if (result.kind !== 'done') throw notFound()
  return reply.redirect(TOKENS, 303)
}

function readTokenId(request: FastifyRequest): string {
  // The router yields a text for each parameter in the path.
  const { tokenId = '' } = request.params as Record<string, string>
  if (!isTokenId(tokenId)) throw notFound()
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
