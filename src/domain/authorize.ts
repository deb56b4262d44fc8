import { type Denial, denied } from './denial.ts'
import { isInCidrs } from './form/address.ts'
import type { KeyGrant, Lookup } from './key/key-record.ts'
import { buildUpstreamPath, parseQuery, type RouteMatch, WORKSPACE_PARAMETER } from './route/route.ts'

let permit: (match: RouteMatch, grant: KeyGrant, query: string) => Permit

/**
 * Permission for one request to one route with one key. `forward()` requires a permit, and only `authorize()` can make
 * one: forgetting a check is a type error.
 */
export class Permit {
  readonly route: RouteMatch['route']
  readonly grant: KeyGrant
  /** Path and query at the upstream, rebuilt from the route, the key's own workspace and the parsed query. */
  readonly upstreamTarget: string

  private constructor(match: RouteMatch, grant: KeyGrant, query: string) {
    this.route = match.route
    this.grant = grant
    this.upstreamTarget = buildUpstreamPath(match, grant.workspaceId) + query
  }

  static {
    permit = (match, grant, query) => new Permit(match, grant, query)
  }
}

export type Verdict = { readonly kind: 'permitted'; readonly permit: Permit } | Denial

/**
 * The decision. The checks have a fixed order: usable key, client address, workspace binding, scope, query. The first
 * failure decides.
 * @param input.query the raw query, without its `?`
 * @param input.clientAddress an IP address; any other text is in no allowed network
 * @param input.nowMs milliseconds since the epoch, by the wall clock: expiry is checked at each request
 */
export function authorize(input: {
  lookup: Lookup
  match: RouteMatch
  query: string
  nowMs: number
  clientAddress: string
}): Verdict {
  const { lookup, match, nowMs } = input
  if (lookup.kind === 'unknown') return denied('key_store_unavailable')
  if (lookup.kind === 'limited') return denied('lookup_limited')
  if (lookup.kind === 'absent') return denied('key_invalid')
  const { grant } = lookup
  return (
    denyUnusable(grant, nowMs) ??
    denyOtherAddress(grant, input.clientAddress) ??
    denyOtherWorkspace(match, grant) ??
    denyMissingScope(match, grant) ??
    permitQuery(match, grant, input.query)
  )
}

function denyUnusable(grant: KeyGrant, nowMs: number): Denial | null {
  if (grant.revokedAtMs !== null) return denied('key_revoked')
  // In this direction, an expiry of NaN denies the request.
  if (!(nowMs < grant.expiresAtMs)) return denied('key_expired')
  return grant.suspendedAtMs === null ? null : denied('key_suspended')
}

function denyOtherAddress({ allowedCidrs }: KeyGrant, clientAddress: string): Denial | null {
  if (allowedCidrs.length === 0 || isInCidrs(clientAddress, allowedCidrs)) return null
  return denied('address_not_allowed', { detail: `The API key must not be used from ${clientAddress}` })
}

/** Compares two texts, without a lookup: the response takes the same time whether the workspace exists or not. */
function denyOtherWorkspace(match: RouteMatch, grant: KeyGrant): Denial | null {
  const requested = match.parameters.get(WORKSPACE_PARAMETER)
  return requested === undefined || requested === grant.workspaceId ? null : denied('other_workspace')
}

function denyMissingScope(match: RouteMatch, grant: KeyGrant): Denial | null {
  const { scope } = match.route
  if (scope === null || grant.scopes.includes(scope)) return null
  return denyScope(scope)
}

/** @param scope the route's own, from the settings */
export function denyScope(scope: string): Denial & { readonly scope: string; readonly detail: string } {
  const detail = `The API key lacks the scope ${scope}`
  return { ...denied('scope_missing'), scope, detail }
}

function permitQuery(match: RouteMatch, grant: KeyGrant, query: string): Verdict {
  const parsed = parseQuery(match.route, query)
  if (!parsed.ok) return denied('invalid_query', { detail: parsed.detail })
  return { kind: 'permitted', permit: permit(match, grant, parsed.upstreamQuery) }
}
