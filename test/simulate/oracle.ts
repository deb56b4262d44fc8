/**
 * What a client may see of a key, as docs/concepts.md says it. Written for this simulator and with nothing of the program in it, so that
 * a fault of the program's own decisions is found too.
 */

/** What counts of one version of a key. */
export interface KeyFacts {
  readonly version: number
  readonly workspaceId: string
  readonly scopes: readonly string[]
  /** IPv4 networks; an empty list allows every address. */
  readonly networks: readonly string[]
  readonly expiresAtMs: number
  readonly isRevoked: boolean
  readonly isSuspended: boolean
}

/** What counts of a request. */
export interface ClientRequest {
  /** Of the path, or null for a route without one. */
  readonly workspaceId: string | null
  /** That the route requires. */
  readonly scope: string | null
  /** IPv4. */
  readonly address: string
}

/** The code of the response, or that the request is forwarded. */
export type Answer =
  | 'permitted'
  | 'key_invalid'
  | 'key_revoked'
  | 'key_expired'
  | 'key_suspended'
  | 'address_not_allowed'
  | 'not_found'
  | 'scope_missing'
  | 'key_store_unavailable'

/** The times of the promise on revocation. */
export const PROMISE = {
  connectedBoundMs: 1_000,
  disconnectedBoundMs: 2_000,
  /** A gateway without a heartbeat for this long is disconnected. */
  silenceMs: 1_000,
  /** A disconnected gateway uses a record for this long. */
  disconnectedTrustMs: 1_000,
} as const

/** Checks 5 to 7 of a request, in their order. */
export function answerTo(key: KeyFacts | null, request: ClientRequest, nowMs: number): Answer {
  if (key === null) return 'key_invalid'
  if (key.isRevoked) return 'key_revoked'
  if (nowMs >= key.expiresAtMs) return 'key_expired'
  if (key.isSuspended) return 'key_suspended'
  const isAllowed = key.networks.length === 0 || key.networks.some(network => isIn(request.address, network))
  if (!isAllowed) return 'address_not_allowed'
  if (request.workspaceId !== null && request.workspaceId !== key.workspaceId) return 'not_found'
  if (request.scope !== null && !key.scopes.includes(request.scope)) return 'scope_missing'
  return 'permitted'
}

function isIn(address: string, network: string): boolean {
  const [base = '', bits = '32'] = network.split('/')
  const size = 2 ** (32 - Number(bits))
  return Math.floor(numberOf(address) / size) === Math.floor(numberOf(base) / size)
}

function numberOf(address: string): number {
  return address.split('.').reduce((number, part) => number * 256 + Number(part), 0)
}

/** @returns what a change must not do to a key, or null */
export function wrongChange(before: KeyFacts | null, after: KeyFacts): string | null {
  if (before === null) return after.version === 1 ? null : `begins with version ${after.version}`
  if (after.version !== before.version + 1) return `version ${after.version} follows ${before.version}`
  if (before.isRevoked && !after.isRevoked) return `version ${after.version} undoes a revocation`
  if (after.expiresAtMs > before.expiresAtMs) return `version ${after.version} has a later expiry`
  if (after.workspaceId !== before.workspaceId) return `version ${after.version} is of another workspace`
  const isWider = after.scopes.some(scope => !before.scopes.includes(scope))
  return isWider ? `version ${after.version} has more scopes` : null
}
