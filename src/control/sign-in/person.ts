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
  /** A viewer sees, a manager also changes. Sessions of the release before have none: that of a manager. */
  readonly role?: Role
}

export type Role = 'viewer' | 'manager'

/** The actor in audit entries and records: stable across name changes, and never equal to a program's. */
export function personActorOf({ subject }: Pick<Person, 'subject'>): string {
  return `person:${subject}`
}
