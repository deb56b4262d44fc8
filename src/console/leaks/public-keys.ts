import { type OnReload, reloadable } from '../../config/reloadable.ts'
import type { Config } from '../../config/schema/schema.ts'
import { readAuthorities, readNamedFile } from '../../config/setting-files.ts'
import type { Clock } from '../../domain/clock.ts'
import type { ProxySettings } from '../../domain/proxy.ts'
import {
  parsePublicKeys,
  type ReportKey,
  type ReportKeys,
  requireReportKeys,
} from '../../domain/report-keys.ts'
import type { ControlLogger } from '../../observability/control-logger.ts'
import { asError, FailureLog } from '../../observability/failure-log.ts'
import { OutgoingClient } from '../../outgoing/outgoing-client.ts'

type GithubSettings = Config['leaks']['github']

/** After that a list is read again before it is used. */
const FRESH_MS = 3_600_000
/** If it cannot be read again, the list is used this long: an outage of GitHub's API must not stop reports. */
const USABLE_MS = 86_400_000
/** Between two attempts: reports with invented identifiers must not exhaust the rate limit of GitHub's API. */
const RETRY_MS = 300_000
/** Ten keys are 4 KiB. */
const MAX_BYTES = 256 * 1024
const MAX_ETAG_LENGTH = 200

/** The keys that sign reports. */
export interface KeySource {
  /** @returns null if there is no such key @throws if that is not known */
  find(identifier: string): Promise<ReportKey | null>
  stop(): Promise<void>
}

interface KeySourceParts {
  readonly clock: Clock
  readonly logger: ControlLogger
  readonly proxies: ProxySettings
}

/** The keys of the settings: of a file, which a reload reads again, or of an address. @throws if the file is not there or holds no key */
export function createKeySource(
  { clock, logger, proxies }: KeySourceParts,
  settings: GithubSettings,
  onReload: OnReload<GithubSettings>,
): KeySource {
  if (settings.keysFile !== undefined) {
    const current = reloadable(settings, onReload, ({ keysFile = settings.keysFile ?? '' }) =>
      requireReportKeys(readNamedFile(keysFile, 'leaks.github.keysFile'), 'leaks.github.keysFile'),
    )
    return { find: async identifier => current.value.get(identifier) ?? null, stop: async () => {} }
  }
  const { fetchKeys, stop } = createKeyFetcher(settings, onReload, proxies)
  const failures = new FailureLog('public keys of GitHub', logger, clock)
  return { ...createCachedKeys({ fetchKeys, clock, failures }), stop }
}

interface CachedKeysParts {
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
export function createCachedKeys({ fetchKeys, clock, failures }: CachedKeysParts): Pick<KeySource, 'find'> {
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

interface FetchedKeys {
  readonly text: string
  readonly etag: string | null
}

interface KeyFetcher {
  /** Follows no redirect. @returns null if the list with this ETag is the current one */
  fetchKeys(etag: string | null): Promise<FetchedKeys | null>
  stop(): Promise<void>
}

export function createKeyFetcher(
  settings: GithubSettings,
  onReload: OnReload<GithubSettings>,
  proxies: ProxySettings,
): KeyFetcher {
  const url = new URL(settings.keysUrl)
  const client = reloadable(settings, onReload, next => createClient(next, proxies))
  return {
    async fetchKeys(etag) {
      // It bounds the whole exchange, also one whose bytes trickle in.
      const signal = AbortSignal.timeout(settings.timeoutMs)
      const { statusCode, headers, body } = await client.value.request(url, {
        method: 'GET',
        headers: {
          accept: 'application/json',
          'user-agent': 'postern',
          ...(etag === null ? {} : { 'if-none-match': etag }),
        },
        signal,
      })
      if (statusCode !== 200) {
        await body.dump({ limit: MAX_BYTES, signal })
        if (statusCode === 304 && etag !== null) return null
        throw new Error(`leaks.github.keysUrl: response status ${statusCode}`)
      }
      const fresh = headers['etag']
      const isUsable = typeof fresh === 'string' && fresh.length <= MAX_ETAG_LENGTH
      return { text: await body.text(), etag: isUsable ? fresh : null }
    },
    stop: () => client.value.stop(),
  }
}

/** @throws if the file holds no certificate */
function createClient({ caFile, timeoutMs }: GithubSettings, proxies: ProxySettings): OutgoingClient {
  return new OutgoingClient({
    proxies,
    ...readAuthorities(caFile, 'leaks.github.caFile'),
    connectTimeoutMs: timeoutMs,
    connections: 1,
    maxResponseSize: MAX_BYTES,
  })
}
