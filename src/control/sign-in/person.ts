/** A signed-in person, as described by the claims at that moment. */
export interface Person {
  /** The permanent id at the provider: `sub`. */
  readonly subject: string
  /** Display name: not unique, and chosen by the person. */
  readonly name: string
  readonly workspaces: readonly string[]
  /** May see and change every workspace. */
  readonly administrator: boolean
}

/** Other workspaces are answered like unknown ones. */
export function maySee(person: Person, workspaceId: string): boolean {
  return person.administrator || person.workspaces.includes(workspaceId)
}

/** The actor in audit entries and records: stable across name changes, and never equal to a program's. */
export function actorOf({ subject }: Pick<Person, 'subject'>): string {
  return `person:${subject}`
}
