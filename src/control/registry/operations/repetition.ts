import { hash } from 'node:crypto'
import type { KeyRecord } from '../../../domain/key-record.ts'

/** How long a request can be repeated safely. */
export const REPETITION_MS = 24 * 3_600_000

/** What tells a repeated request: digests, so that nothing of what a caller sent is kept. */
export interface Repetition {
  /** Who asked, and the Idempotency-Key. */
  readonly id: string
  /** What was asked. */
  readonly request: string
}

export type EarlierAnswer =
  | { readonly kind: 'same_request'; readonly outcome: string }
  | { readonly kind: 'other_request' }

/** @param request whatever decides what is done: operation, parameters of the path, body */
export function repetitionOf(
  actor: string,
  idempotencyKey: string,
  request: readonly [operation: string, parameters: object, body: object],
): Repetition {
  const [operation, parameters, body] = request
  return {
    id: hash('sha256', JSON.stringify([actor, idempotencyKey])),
    request: hash('sha256', JSON.stringify([operation, sorted(parameters), sorted(body)])),
  }
}

/** Flat objects: what is said in another order is the same. */
function sorted(object: object): [string, unknown][] {
  return Object.entries(object).sort(([a], [b]) => (a < b ? -1 : 1))
}

/** The records of an answer as they were when it was given. */
export interface KeptOutcome {
  readonly record: KeyRecord
  readonly replaced: KeyRecord | null
}

export function encodeOutcome({ record, replaced }: KeptOutcome): string {
  return JSON.stringify({ record, replaced })
}

export function decodeOutcome(text: string): KeptOutcome {
  // Only encodeOutcome() writes this column.
  return JSON.parse(text) as KeptOutcome
}
