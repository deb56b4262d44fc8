/** A committed change that is not announced yet. */
export interface OutboxRow {
  readonly digest: string
  readonly version: number
  /** When it was committed. */
  readonly at_ms: number
  /** The console that is announcing it; others leave it alone until then. */
  readonly claimed_by: string
  readonly claimed_until_ms: number
}

/** The same for a region other than `default`. */
export interface RegionOutboxRow extends OutboxRow {
  readonly region: string
}

/** A region that gets every change. */
export interface RegionRow {
  readonly name: string
  /** When a console last stated that it announces to it. */
  readonly seen_at_ms: number
  /** The changes of keys up to this id are in its outbox; null once those of all keys were. */
  readonly requeued_until: string | null
}
