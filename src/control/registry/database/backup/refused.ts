/** A backup, restore or copy that cannot be done. Nothing was changed; the message says what to do. */
export class Refused extends Error {}

export interface ProgressOf {
  show(done: number, total: number): void
}
