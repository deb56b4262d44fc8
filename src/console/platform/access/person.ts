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
  /** May see and change every workspace, in any role. */
  readonly administrator: boolean
  /** A viewer sees, a manager also changes. */
  readonly role: 'viewer' | 'manager'
  /** Claims that a setting names and that are not used, or not all of them. Never for an administrator. */
  readonly unusedClaims?: readonly UnusedClaim[]
}

/** Shown to the person and logged: what the provider or the settings must change. It holds no value of the claim. */
export interface UnusedClaim {
  readonly setting: 'workspacesClaim' | 'administratorClaim' | 'viewerClaim'
  readonly claim: string
  /** Completes `The claim groups is …`. */
  readonly shape: string
  readonly remedy: string
}

/** The actor in audit entries and records: stable across name changes, and never equal to a program's. */
export function personActor({ subject }: Pick<Person, 'subject'>): string {
  return `person:${subject}`
}

/** Signing in without a provider, only for `postern demo`: the link works once, for an hour. */
export interface OneTimeLink {
  /** Path and query, printed only to the terminal of the demo. */
  readonly path: string
  /** Replaces the link by a new one. */
  renew(): void
  /** @returns null for a wrong, used or expired token */
  take(token: unknown): Person | null
}
