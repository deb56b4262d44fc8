export const PERMISSIONS = ['keys:read', 'keys:write', 'audit:read', 'tokens:write'] as const
export type Permission = (typeof PERMISSIONS)[number]

/** A token for programs that use the admin API. */
export interface AdminToken {
  /** `tok_` and a ULID. */
  readonly id: string
  readonly name: string
  readonly hint: string
  readonly permissions: readonly Permission[]
  /** Null for all. */
  readonly workspaces: readonly string[] | null
  readonly createdAtMs: number
  readonly createdBy: string
  readonly expiresAtMs: number
  readonly revokedAtMs: number | null
  /** To the minute; null if it was never used. */
  readonly lastUsedAtMs: number | null
}

/** A signed-in person, as described by the claims at that moment. */
export interface Person {
  /** The permanent id at the provider: `sub`. */
  readonly subject: string
  /** Display name: not unique, and chosen by the person. */
  readonly name: string
  /** The first in the order of their ids, if there are more than a session holds. */
  readonly workspaces: readonly string[]
  /** How many the claim grants, if they are more. */
  readonly workspacesGranted?: number
  /** By workspace id, for display: they decide nothing. Only those that the provider names. */
  readonly workspaceNames?: WorkspaceNames
  /** May see and change every workspace, in any role. */
  readonly administrator: boolean
  /** A viewer sees, a manager also changes. */
  readonly role: 'viewer' | 'manager'
  /** Claims that a setting names and that are not used, or not all of them. Never for an administrator. */
  readonly unusedClaims?: readonly UnusedClaim[]
}

export type WorkspaceNames = Readonly<Record<string, string>>

/** Shown to the person and logged: what the provider or the settings must change. It holds no value of the claim. */
export interface UnusedClaim {
  readonly setting: 'workspacesClaim' | 'workspaceNamesClaim' | 'administratorClaim' | 'viewerClaim'
  readonly claim: string
  /** Completes `The claim groups is …`. */
  readonly shape: string
  readonly remedy: string
}

/** Who makes a request to the console. */
export type Principal =
  /** A program with `POSTERN_ADMIN_TOKEN`: every right. */
  | { readonly kind: 'operator' }
  /** A program with an admin token of its own. */
  | { readonly kind: 'token'; readonly token: AdminToken }
  | { readonly kind: 'person'; readonly person: Person }

/** Who requested a change, and from where. */
export interface Caller {
  readonly actor: string
  /** The display name of a person or an admin token. */
  readonly name?: string
  /** The client's address, as reported by a trusted proxy or taken from the connection. */
  readonly address: string
  readonly requestId: string
}

/** Rights that a new token would have. */
interface Grant {
  readonly permissions: readonly Permission[]
  /** Null for all. */
  readonly workspaces: readonly string[] | null
  readonly expiresAtMs: number
}

const VIEWER: readonly Permission[] = ['keys:read', 'audit:read']
const MANAGER: readonly Permission[] = ['keys:read', 'keys:write', 'audit:read']

/** Whether the principal may do this in this workspace; null: in all workspaces. */
export function may(principal: Principal, permission: Permission, workspaceId: string | null): boolean {
  return holds(principal, permission) && sees(principal, workspaceId)
}

/** Whether the principal has the permission in any workspace. */
export function holds(principal: Principal, permission: Permission): boolean {
  switch (principal.kind) {
    case 'operator':
      return true
    case 'token':
      return includesPermission(principal.token.permissions, permission)
    case 'person': {
      const { administrator, role } = principal.person
      return administrator || (role === 'viewer' ? VIEWER : MANAGER).includes(permission)
    }
  }
}

/** `keys:write` includes `keys:read`. */
function includesPermission(granted: readonly Permission[], wanted: Permission): boolean {
  return granted.includes(wanted) || (wanted === 'keys:read' && granted.includes('keys:write'))
}

/** Other workspaces are answered like unknown ones. @param workspaceId null: all workspaces */
export function sees(principal: Principal, workspaceId: string | null): boolean {
  const workspaces = allowedWorkspaces(principal)
  return workspaces === null || (workspaceId !== null && workspaces.includes(workspaceId))
}

/** @returns null for all */
export function allowedWorkspaces(principal: Principal): readonly string[] | null {
  switch (principal.kind) {
    case 'operator':
      return null
    case 'token':
      return principal.token.workspaces
    case 'person':
      return principal.person.administrator ? null : principal.person.workspaces
  }
}

/**
 * Whether the principal may make a token with these rights: none that it lacks, and from a token none that outlives it.
 * Otherwise a leaked token could be extended for ever.
 */
export function mayGrant(principal: Principal, { permissions, workspaces, expiresAtMs }: Grant): boolean {
  if (principal.kind === 'token' && expiresAtMs > principal.token.expiresAtMs) return false
  return permissions.every(permission =>
    (workspaces ?? [null]).every(workspaceId => may(principal, permission, workspaceId)),
  )
}

/** In audit entries and records: no principal can have the actor of another. */
export function principalActor(principal: Principal): string {
  switch (principal.kind) {
    case 'operator':
      return 'admin-token'
    case 'token':
      return `token:${principal.token.id}`
    case 'person':
      return personActor(principal.person)
  }
}

/** The actor in audit entries and records: stable across name changes, and never equal to a program's. */
export function personActor({ subject }: Pick<Person, 'subject'>): string {
  return `person:${subject}`
}

/** For display; undefined for the operator's token. */
export function principalName(principal: Principal): string | undefined {
  switch (principal.kind) {
    case 'operator':
      return undefined
    case 'token':
      return principal.token.name
    case 'person':
      return principal.person.name
  }
}
