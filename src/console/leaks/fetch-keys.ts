import { readNamedFile } from '../../config/read-named-file.ts'
import { type OnReload, reloadable } from '../../config/reloadable.ts'
import type { Config } from '../../config/schema/schema.ts'
import { requireAuthorities } from '../../domain/pem.ts'
import type { ProxySettings } from '../../domain/proxy.ts'
import { OutgoingClient } from '../../outgoing/outgoing-client.ts'

type GithubSettings = Config['leaks']['github']

/** Ten keys are 4 KiB. */
const MAX_BYTES = 256 * 1024
const MAX_ETAG_LENGTH = 200

export interface FetchedKeys {
  readonly text: string
  readonly etag: string | null
}

export interface KeyFetcher {
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
  const client = reloadable(settings, onReload, next => clientOf(next, proxies))
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
function clientOf({ caFile, timeoutMs }: GithubSettings, proxies: ProxySettings): OutgoingClient {
  const ca = caFile === undefined ? undefined : readNamedFile(caFile, 'leaks.github.caFile')
  if (ca !== undefined) requireAuthorities(ca, 'leaks.github.caFile')
  return new OutgoingClient({
    ...{ proxies, ca, connectTimeoutMs: timeoutMs },
    connections: 1,
    maxResponseSize: MAX_BYTES,
  })
}
