import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Clock } from '../../domain/clock.ts'
import type { AdminToken } from '../platform/access/admin-token.ts'
import type { RandomBytes } from '../platform/database/ids.ts'
import { type Html, html, instantAndAgo } from '../platform/html/html.ts'
import type { Frame } from '../platform/html/layout.ts'
import { createFrame } from '../platform/html/page-request.ts'
import { TOKENS } from '../platform/html/paths.ts'
import type { AdminTokens } from './operations.ts'

export const TITLE = 'Admin tokens'
/** Of a token's up to 1000 workspaces, which would fill the page. */
const WORKSPACES_SHOWN = 3

export interface TokenPageParts {
  readonly tokens: AdminTokens
  readonly clock: Clock
  readonly randomBytes: RandomBytes
}

export function tokenFrame({ clock }: TokenPageParts, request: FastifyRequest, reply: FastifyReply): Frame {
  return createFrame(request, reply, { workspaceId: null, clock })
}

export function tokenFacts(token: AdminToken, nowMs: number): Html {
  return html`<dl class="facts">
    <div><dt>Permissions</dt><dd>${token.permissions.join(', ')}</dd></div>
    <div><dt>Workspaces</dt><dd class="breaks">${workspacesText(token)}</dd></div>
    <div><dt>Expires</dt><dd>${instantAndAgo(token.expiresAtMs, nowMs)}</dd></div>
  </dl>`
}

export function workspacesText({ workspaces }: AdminToken): string {
  if (workspaces === null) return 'All'
  const more = workspaces.length - WORKSPACES_SHOWN
  return `${workspaces.slice(0, WORKSPACES_SHOWN).join(', ')}${more > 0 ? ` and ${more} more` : ''}`
}

export function backToTokens(): Html {
  return html`<p class="back"><a href="${TOKENS}">${TITLE}</a></p>`
}
