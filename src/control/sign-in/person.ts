/** Somebody who signed in: what their claims said at that moment. */
export interface Person {
  /** Who they are at the provider, forever: `sub`. */
  readonly subject: string
  /** For other people; not unique, and theirs to choose. */
  readonly name: string
  readonly workspaces: readonly string[]
  /** Whether every workspace is theirs to see and to change. */
  readonly administrator: boolean
}

/** Whether a workspace is there for this person. Where it is not, they are told what a wrong name would be told. */
export function maySee(person: Person, workspaceId: string): boolean {
  return person.administrator || person.workspaces.includes(workspaceId)
}

/** Who acted, in the audit trail and in records: never the name of a program, and the same whatever they are called. */
export function actorOf({ subject }: Pick<Person, 'subject'>): string {
  return `person:${subject}`
}
