import { hash } from 'node:crypto'
import type { KeyRecord } from '../../../domain/key/key-record.ts'

/** How long a request can be repeated with the same Idempotency-Key. */
export const IDEMPOTENCY_TTL_MS = 24 * 3_600_000

/** Identifies a repeated request by digests, so that nothing the caller sent is stored. */
export interface Idempotency {
  /** SHA-256 of the actor and the Idempotency-Key. */
  readonly id: string
  /** SHA-256 of operation, path parameters and body. */
  readonly request: string
}

export type EarlierResponse =
  | { readonly kind: 'same_request'; readonly outcome: string }
  | { readonly kind: 'other_request' }

/** @param request everything that determines the effect: operation, path parameters, body */
export function idempotencyOf(
  actor: string,
  idempotencyKey: string,
  request: readonly [operation: string, parameters: object, body: object],
): Idempotency {
  const [operation, parameters, body] = request
  return {
    id: hash('sha256', JSON.stringify([actor, idempotencyKey])),
    request: hash('sha256', JSON.stringify([operation, sorted(parameters), sorted(body)])),
  }
}

/** Flat objects; the order of their fields does not matter. */
function sorted(object: object): [string, unknown][] {
  return Object.entries(object).sort(([a], [b]) => (a < b ? -1 : 1))
}

/** The records of a response at the time it was given. */
interface StoredOutcome {
  readonly record: KeyRecord
  readonly replaced: KeyRecord | null
}

export function encodeOutcome({ record, replaced }: StoredOutcome): string {
  return JSON.stringify({ record, replaced })
}

export function decodeOutcome(text: string): StoredOutcome {
  // Only encodeOutcome() writes this column.
  return JSON.parse(text) as StoredOutcome
}
