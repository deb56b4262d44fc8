import type { KeyGrant } from '../../domain/key/key-record.ts'

export interface AssertionSettings {
  readonly issuer: string
  readonly audience: string
  readonly lifetimeSeconds: number
  readonly bind: 'key' | 'request'
}

export interface AssertionClaims {
  readonly iss: string
  readonly aud: string
  readonly sub: string
  readonly workspace_id: string
  /** RFC 9068, section 2.2.3: separated by spaces. */
  readonly scope: string
  readonly iat: number
  readonly exp: number
  /** Method and target of the one request that the assertion is for; both only with `bind: request`. */
  readonly htm?: 'GET'
  readonly htu?: string
}

/**
 * @param target path and query that the upstream receives; null if the assertion is for any request of the key
 * @param nowMs milliseconds since the epoch
 */
export function assertionClaims(
  { issuer, audience, lifetimeSeconds }: AssertionSettings,
  grant: KeyGrant,
  target: string | null,
  nowMs: number,
): AssertionClaims {
  // Rounded down: a verifier whose clock is a little late must not see a time in the future.
  const iat = Math.floor(nowMs / 1000)
  return {
    iss: issuer,
    aud: audience,
    sub: grant.id,
    workspace_id: grant.workspaceId,
    scope: grant.scopes.join(' '),
    iat,
    exp: iat + lifetimeSeconds,
    ...(target === null ? {} : { htm: 'GET', htu: target }),
  }
}

/**
 * Whether an assertion may be used again: until half of its life has passed, so that the upstream always has the other half
 * to verify it. After a step of the clock in either direction a new one is signed.
 */
export function isReusable(
  signed: { readonly grant: KeyGrant; readonly issuedAtMs: number },
  grant: KeyGrant,
  nowMs: number,
  lifetimeSeconds: number,
): boolean {
  const ageMs = nowMs - signed.issuedAtMs
  return ageMs >= 0 && ageMs < lifetimeSeconds * 500 && hasSameClaims(signed.grant, grant)
}

function hasSameClaims(one: KeyGrant, other: KeyGrant): boolean {
  if (one === other) return true
  return (
    one.id === other.id &&
    one.version === other.version &&
    one.workspaceId === other.workspaceId &&
    one.scopes.join(' ') === other.scopes.join(' ')
  )
}
