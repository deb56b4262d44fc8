import type { Clock } from '../../domain/clock.ts'
import { asError, type FailureLog } from '../../observability/failure-log.ts'
import type { FetchedKeys } from './fetch-keys.ts'
import { parsePublicKeys, type ReportKey, type ReportKeys } from './parse-public-keys.ts'

/** After that a list is read again before it is used. */
const FRESH_MS = 3_600_000
/** If it cannot be read again, the list is used this long: an outage of GitHub's API must not stop reports. */
const USABLE_MS = 86_400_000
/** Between two attempts: reports with invented identifiers must not exhaust the rate limit of GitHub's API. */
const RETRY_MS = 300_000

/** The keys that sign reports. */
export interface KeySource {
  /** @returns null if there is no such key @throws if that is not known */
  find(identifier: string): Promise<ReportKey | null>
}

export interface CachedKeysParts {
  /** @param etag of the list that is known @returns null if it has not changed */
  readonly fetchKeys: (etag: string | null) => Promise<FetchedKeys | null>
  readonly clock: Pick<Clock, 'monotonicMs'>
  readonly failures: Pick<FailureLog, 'failed' | 'succeeded'>
}

interface KnownList {
  readonly keys: ReportKeys
  readonly etag: string | null
  readonly readAtMs: number
}

/** Keys of a list at an address. An unknown identifier may be that of a new key: the list is then read again. */
export function createCachedKeys({ fetchKeys, clock, failures }: CachedKeysParts): KeySource {
  let list: KnownList | null = null
  let triedAtMs = Number.NEGATIVE_INFINITY
  let failure: Error | null = null
  let reading: Promise<void> | null = null

  const ageMs = () => (list === null ? Number.POSITIVE_INFINITY : clock.monotonicMs() - list.readAtMs)

  async function read(): Promise<void> {
    triedAtMs = clock.monotonicMs()
    try {
      const fetched = await fetchKeys(list?.etag ?? null)
      // A server that answers "not changed" to the first request has sent no list.
      if (fetched === null && list === null) throw new Error('no list of public keys was sent')
      const next = fetched === null ? list : { keys: parsePublicKeys(fetched.text), etag: fetched.etag }
      if (next !== null) list = { ...next, readAtMs: triedAtMs }
      failure = null
      failures.succeeded()
    } catch (error) {
      failure = asError(error)
      failures.failed(failure)
    }
  }

  /** Requests that come while it is being read wait for the same response. */
  async function refresh(): Promise<void> {
    if (reading === null && clock.monotonicMs() - triedAtMs < RETRY_MS) return
    reading ??= read().finally(() => {
      reading = null
    })
    await reading
  }

  return {
    async find(identifier) {
      if (ageMs() >= FRESH_MS || list?.keys.get(identifier) === undefined) await refresh()
      if (ageMs() >= USABLE_MS) throw failure ?? new Error('the list of public keys is too old')
      const found = list?.keys.get(identifier) ?? null
      if (found === null && failure !== null) throw failure
      return found
    },
  }
}

/** Keys of a file, which a reload reads again. */
export function createFixedKeys(current: { readonly value: ReportKeys }): KeySource {
  return { find: async identifier => current.value.get(identifier) ?? null }
}
