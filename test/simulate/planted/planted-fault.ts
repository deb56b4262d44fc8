/** One place of one module that reads otherwise. */
export interface Mutation {
  /** Below `src`. */
  readonly file: string
  /** Occurs exactly once. */
  readonly from: string
  readonly to: string
}

/** A fault put into the program. Where two rules protect the same thing, it removes both. */
export interface PlantedFault {
  readonly name: string
  readonly mutations: readonly Mutation[]
}
