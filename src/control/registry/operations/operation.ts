import type { Clock } from '../../../domain/clock.ts'
import type { KeyRecord, KeyState } from '../../../domain/key-record.ts'
import type { Secret } from '../../../domain/secret.ts'
import type { Notice } from '../../webhooks/webhook-event.ts'
import type { Outbox } from '../announcing/outbox.ts'
import type { CommitOutcome, KeyRepository, PendingChange, StoredKey } from '../database/key-repository.ts'
import type { AuditEntry, Caller } from './audit.ts'
import { decodeOutcome, type EarlierAnswer, encodeOutcome, type Repetition } from './repetition.ts'

/** Each lost race is a hint that was taken, or another change of the same key; a key has few in its life. */
const MAX_ATTEMPTS = 8

/** Who asks for an operation, and whether the request may be a repeated one. */
export interface Asked {
  readonly caller: Caller
  /** Null where the request carries no Idempotency-Key. */
  readonly repetition: Repetition | null
}

/** What an operation is going to do, decided from what is stored at this moment. */
export interface Attempt {
  readonly kind: 'planned'
  readonly issued: StoredKey | null
  readonly replaced: StoredKey | null
  readonly audit: readonly AuditEntry[]
  /** The record that is answered. */
  readonly record: KeyRecord
  readonly digest: string
  readonly secret: Secret | null
}

export type Refusal =
  /** @property expected what the field must be, in words that follow `must be` */
  | { readonly kind: 'invalid'; readonly field: string; readonly expected: string }
  | { readonly kind: 'unknown_key' }
  | { readonly kind: 'not_active'; readonly state: KeyState }
  /** The Idempotency-Key belongs to a request that asked for something else. */
  | { readonly kind: 'other_request' }

export interface Done {
  readonly kind: 'done'
  readonly record: KeyRecord
  /** The key that `record` succeeds. */
  readonly replaced: StoredKey | null
  /** To be shown once; kept nowhere. */
  readonly secret: Secret | null
  /** False where there was nothing to change. */
  readonly changed: boolean
  /** Under which gateways know the key of `record`. */
  readonly digest: string
  /** When this request changed something; null where it did not. */
  readonly committedAtMs: number | null
  /** Whether gateways were told; if not, they will be as soon as that is possible. */
  readonly announced: boolean
  /** When that was, where this request did it. */
  readonly announcedAtMs: number | null
  /** Whether all this was done by an earlier request, whose answer this is. */
  readonly replayed: boolean
}

interface Parts {
  readonly repository: KeyRepository
  readonly outbox: Outbox
  readonly clock: Clock
  /** What the webhook is told of a change; nothing where there is none. */
  readonly noticesOf: (attempt: Attempt) => readonly Notice[]
}

/**
 * Plan, save, announce; planned anew where somebody else was faster. A request that was acted on before is answered as
 * it was then, also where it was another console that acted, and where both ran at the same time.
 */
export async function perform(
  parts: Parts,
  { repetition }: Asked,
  plan: () => Promise<Attempt | Refusal>,
): Promise<Done | Refusal> {
  const { repository } = parts
  const findEarlier = async () => (repetition === null ? null : repository.findAnswer(repetition))
  const before = await findEarlier()
  if (before !== null) return replay(parts, before)
  let outcome: CommitOutcome['kind'] = 'committed'
  for (let attempts = 0; attempts < MAX_ATTEMPTS; attempts++) {
    const attempt = await plan()
    if (attempt.kind !== 'planned') {
      // What stands in the way may be the work of the same request, which was committed in between.
      const meanwhile = await findEarlier()
      return meanwhile === null ? attempt : replay(parts, meanwhile)
    }
    const committed = await save(parts, attempt, repetition)
    if (committed.kind === 'committed') return announce(parts, attempt, committed.notes)
    if (committed.kind === 'repeated') return replay(parts, committed.earlier)
    outcome = committed.kind
  }
  throw new Error(`No success in ${MAX_ATTEMPTS} attempts: ${SUSPICION[outcome]}`)
}

const SUSPICION: Readonly<Record<CommitOutcome['kind'], string>> = {
  hint_taken: 'the hint of each new key is taken. Is the random generator broken?',
  stale: 'others kept changing the key',
  committed: '',
  repeated: '',
}

/** Nothing to save where nothing changes, but for the answer to the next request like this. */
async function save(
  { repository, noticesOf }: Parts,
  attempt: Attempt,
  repetition: Repetition | null,
): Promise<CommitOutcome> {
  const { issued, replaced, audit, record } = attempt
  if (issued === null && replaced === null && repetition === null) return { kind: 'committed', notes: [] }
  const old = issued === null ? null : (replaced?.record ?? null)
  const answer =
    repetition === null ? null : { ...repetition, outcome: encodeOutcome({ record, replaced: old }) }
  return repository.commit({ issued, replaced, audit, answer, notices: noticesOf(attempt) })
}

async function announce(
  { outbox, clock }: Parts,
  { issued, replaced, record, digest, secret }: Attempt,
  notes: readonly PendingChange[],
): Promise<Done> {
  const keys = [issued, replaced].filter(key => key !== null)
  const told = keys.map((key, index) => outbox.announce(key, notes.slice(index, index + 1)))
  const changed = keys.length > 0
  const announced = changed ? (await Promise.all(told)).every(Boolean) : await outbox.settle({ digest })
  const announcedAtMs = changed && announced ? clock.wallMs() : null
  const committedAtMs = notes.at(-1)?.atMs ?? null
  const old = issued === null ? null : replaced
  const times = { committedAtMs, announcedAtMs }
  return {
    kind: 'done',
    record,
    replaced: old,
    secret,
    changed,
    digest,
    announced,
    ...times,
    replayed: false,
  }
}

/** The records as they were then; whether they are announced, as it is now. */
async function replay({ repository, outbox }: Parts, earlier: EarlierAnswer): Promise<Done | Refusal> {
  if (earlier.kind === 'other_request') return earlier
  const { record, replaced } = decodeOutcome(earlier.outcome)
  const ids = replaced === null ? [record.id] : [record.id, replaced.id]
  const keys = (await Promise.all(ids.map(id => repository.findById(id)))).filter(key => key !== null)
  const announced = (await Promise.all(keys.map(key => outbox.settle(key)))).every(Boolean)
  const digestOf = ({ id }: KeyRecord) => keys.find(key => key.record.id === id)?.digest ?? ''
  const old = replaced === null ? null : { record: replaced, digest: digestOf(replaced) }
  const nothing = { secret: null, changed: false, committedAtMs: null, announcedAtMs: null }
  return {
    kind: 'done',
    record,
    replaced: old,
    ...nothing,
    digest: digestOf(record),
    announced,
    replayed: true,
  }
}
