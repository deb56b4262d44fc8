/** Others are counted together: a forged entry can name any secret. */
const MAX_GROUPS = 20

/** Entries that one signing secret signed, which is not given. */
export interface UnverifiedGroup {
  /** Its fingerprint; null: the entries are not signed, or too many different secrets are named. */
  readonly signedBy: string | null
  readonly count: number
  /** The first of them, in words. */
  readonly first: string
}

/** Entries of which nothing can be said, by the secret that would say it. */
export class UnverifiedEntries {
  readonly #groups = new Map<string | null, UnverifiedGroup>()

  add(signedBy: string | null, description: string): void {
    const name = this.#groups.has(signedBy) || this.#groups.size < MAX_GROUPS ? signedBy : null
    const { count, first } = this.#groups.get(name) ?? { count: 0, first: description }
    this.#groups.set(name, { signedBy: name, count: count + 1, first })
  }

  get groups(): readonly UnverifiedGroup[] {
    return [...this.#groups.values()]
  }
}
