import { StartError } from '../../../domain/start-error.ts'

/** A backup, restore or copy that cannot be done. Nothing was changed; the message says what to do. */
export class Refused extends StartError {}

export interface ProgressOf {
  show(done: number, total: number): void
}
