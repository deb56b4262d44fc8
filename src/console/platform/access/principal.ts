import type { AdminToken } from './admin-token.ts'
import { includesPermission, type Permission } from './permission.ts'
import { type Person, personActor } from './person.ts'

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
export interface Grant {
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
