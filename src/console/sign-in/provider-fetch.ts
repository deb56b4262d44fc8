import type { CustomFetch } from 'openid-client'
import type { RequestInit } from 'undici'
import { readNamedFile } from '../../config/read-named-file.ts'
import { requireAuthorities } from '../../domain/pem.ts'
import type { ProxySettings } from '../../domain/proxy.ts'
import { OutgoingClient } from '../../outgoing/outgoing-client.ts'

/** Metadata, keys and tokens are a few KiB. */
const MAX_RESPONSE_BYTES = 1024 * 1024

export interface ProviderFetch {
  readonly fetch: CustomFetch
  stop(): Promise<void>
}

/** HTTP to the provider, with its own CA if configured, bounded in time and size. */
export function createProviderFetch(
  { caFile, timeoutMs }: { readonly caFile?: string | undefined; readonly timeoutMs: number },
  proxies: ProxySettings,
): ProviderFetch {
  const ca = caFile === undefined ? undefined : readNamedFile(caFile, 'console.oidc.caFile')
  if (ca !== undefined) requireAuthorities(ca, 'console.oidc.caFile')
  const client = new OutgoingClient({
    proxies,
    ca,
    connectTimeoutMs: timeoutMs,
    headersTimeout: timeoutMs,
    bodyTimeout: timeoutMs,
    maxResponseSize: MAX_RESPONSE_BYTES,
  })
  return {
    // undici and Node declare the same Response and options twice.
    fetch: async (url, options) => (await client.fetch(url, options as RequestInit)) as unknown as Response,
    stop: () => client.stop(),
  }
}
