/** One request and its response as a client saw them. All times are from one clock, in ms since the epoch. */
export interface Sample {
  readonly key: string
  readonly replica: number
  /** When the request was written to the connection. */
  readonly sentAtMs: number
  readonly answeredAtMs: number
  /** 0 if there was no response. */
  readonly status: number
  /** The `code` of a denial; '' if there is none. */
  readonly code: string
}

export interface Revocation {
  /** When the revocation was requested: no earlier request may be rejected as revoked. */
  readonly askedAtMs: number
  /** The earliest time at which it was in effect, from the record. */
  readonly committedAtMs: number
}

export interface History {
  /** The code with which the keys are refused from then on; `key_revoked` if left out. */
  readonly refusedAs?: string
  readonly replicas: number
  readonly samples: readonly Sample[]
  /** By key id. */
  readonly revocations: ReadonlyMap<string, Revocation>
}

export type Violation =
  /** A request sent after the bound was accepted. */
  | { readonly kind: 'accepted_late'; readonly lateByMs: number; readonly sample: Sample }
  /** A replica that had rejected the key accepted it again. */
  | { readonly kind: 'accepted_again'; readonly sample: Sample }
  /** A valid key was rejected, or one whose revocation had not been requested. */
  | { readonly kind: 'refused_wrongly'; readonly sample: Sample }
  /** A revoked key was rejected with another reason: an unknown state was reported as knowledge. */
  | { readonly kind: 'refused_for_another_reason'; readonly sample: Sample }
  /** No response, or one that neither accepts nor rejects. */
  | { readonly kind: 'failed'; readonly sample: Sample }
  /** No request was sent after the bound, so that nothing is proven. */
  | { readonly kind: 'not_shown'; readonly key: string; readonly replica: number }

/** Every violation of the revocation guarantee in a history. */
export function findViolations(history: History, boundMs: number): Violation[] {
  return [...violationsOfSamples(history, boundMs), ...notShown(history, boundMs)]
}

/** For how long the machine kept a change from passing between two times, in ms since the epoch. */
export type ExcuseMs = (fromMs: number, toMs: number) => number

/** Default of `redis.commandTimeoutMs`: a machine that keeps a process waiting for longer makes lookups fail. */
const LOOKUP_TIMEOUT_MS = 100

/**
 * The requests that were accepted too late, but by no longer than the machine kept the change from passing between the commit and
 * the response, and those whose lookup it kept from an answer. Each proves nothing: not that the bound holds, nor that it is broken.
 */
export function excused(
  violations: readonly Violation[],
  { revocations }: Pick<History, 'revocations'>,
  excuseMs: ExcuseMs,
): Violation[] {
  return violations.filter(violation => {
    if (violation.kind === 'failed' && violation.sample.code === 'key_store_unavailable') {
      return excuseMs(violation.sample.sentAtMs, violation.sample.answeredAtMs) > LOOKUP_TIMEOUT_MS
    }
    if (violation.kind !== 'accepted_late') return false
    const { key, answeredAtMs } = violation.sample
    return violation.lateByMs <= excuseMs(revocations.get(key)?.committedAtMs ?? 0, answeredAtMs)
  })
}

/** For how long the machine starved what an excused request passed. */
export function starvedMsOf(
  violation: Violation,
  { revocations }: Pick<History, 'revocations'>,
  excuseMs: ExcuseMs,
): number {
  if (!('sample' in violation)) return 0
  const { key, sentAtMs, answeredAtMs } = violation.sample
  return excuseMs(revocations.get(key)?.committedAtMs ?? sentAtMs, answeredAtMs)
}

function* violationsOfSamples(
  { samples, revocations, refusedAs }: History,
  boundMs: number,
): Iterable<Violation> {
  /** By key and replica: when the client first received a rejection. */
  const refusedAtMs = new Map<string, number>()
  for (const sample of samples.toSorted((a, b) => a.answeredAtMs - b.answeredAtMs)) {
    if (!isRefusal(sample, refusedAs)) continue
    const pair = pairOf(sample.key, sample.replica)
    if (!refusedAtMs.has(pair)) refusedAtMs.set(pair, sample.answeredAtMs)
  }
  for (const sample of samples) {
    const revocation = revocations.get(sample.key)
    if (isAcceptance(sample)) {
      if (revocation === undefined) continue
      const lateByMs = sample.sentAtMs - revocation.committedAtMs - boundMs
      if (lateByMs > 0) yield { kind: 'accepted_late', lateByMs, sample }
      const refused = refusedAtMs.get(pairOf(sample.key, sample.replica)) ?? Number.POSITIVE_INFINITY
      if (sample.sentAtMs > refused) yield { kind: 'accepted_again', sample }
    } else if (!REFUSALS.has(sample.status)) yield { kind: 'failed', sample }
    else if (revocation === undefined || sample.answeredAtMs < revocation.askedAtMs) {
      yield { kind: 'refused_wrongly', sample }
    } else if (!isRefusal(sample, refusedAs)) yield { kind: 'refused_for_another_reason', sample }
  }
}

function* notShown({ samples, revocations, replicas }: History, boundMs: number): Iterable<Violation> {
  const shown = new Set<string>()
  for (const { key, replica, sentAtMs } of samples) {
    const committedAtMs = revocations.get(key)?.committedAtMs ?? Number.POSITIVE_INFINITY
    if (sentAtMs > committedAtMs + boundMs) shown.add(pairOf(key, replica))
  }
  for (const key of revocations.keys()) {
    for (let replica = 0; replica < replicas; replica++) {
      if (!shown.has(pairOf(key, replica))) yield { kind: 'not_shown', key, replica }
    }
  }
}

export interface Lags {
  /** From the revocation to the first response that rejects the key. */
  readonly firstRefusalMs: readonly number[]
  /** From the revocation to the last accepted request; 0 if there was none. */
  readonly lastAcceptanceMs: readonly number[]
}

/** One entry per revoked key, ascending, for one replica or all. */
export function lagsOf({ samples, revocations, refusedAs }: History, replica?: number): Lags {
  const firstRefusal = new Map<string, number>()
  const lastAcceptance = new Map<string, number>()
  for (const sample of samples) {
    const revocation = revocations.get(sample.key)
    if (revocation === undefined || (replica !== undefined && sample.replica !== replica)) continue
    const pair = pairOf(sample.key, sample.replica)
    if (isRefusal(sample, refusedAs)) {
      const lagMs = sample.answeredAtMs - revocation.committedAtMs
      firstRefusal.set(pair, Math.min(lagMs, firstRefusal.get(pair) ?? Number.POSITIVE_INFINITY))
    } else if (isAcceptance(sample)) {
      const lagMs = Math.max(0, sample.sentAtMs - revocation.committedAtMs)
      lastAcceptance.set(pair, Math.max(lagMs, lastAcceptance.get(pair) ?? 0))
    }
  }
  const ascending = (lags: Map<string, number>) => [...lags.values()].sort((a, b) => a - b)
  return { firstRefusalMs: ascending(firstRefusal), lastAcceptanceMs: ascending(lastAcceptance) }
}

/** @param ascending sorted values; a share of 1 gives the greatest */
export function quantile(ascending: readonly number[], share: number): number {
  return ascending[Math.max(0, Math.ceil(ascending.length * share) - 1)] ?? Number.NaN
}

function isAcceptance({ status }: Sample): boolean {
  return status === 200
}

function isRefusal({ status, code }: Sample, refusedAs = 'key_revoked'): boolean {
  return REFUSALS.has(status) && code === refusedAs
}

/** 403: a key that may no longer be used from the client's address. */
export const REFUSALS: ReadonlySet<number> = new Set([401, 403])

function pairOf(key: string, replica: number): string {
  return `${replica} ${key}`
}
