import type { CustomFetch } from 'openid-client'
import { Agent, fetch, type RequestInit } from 'undici'
import { readNamedFile } from '../../config/read-named-file.ts'
import { requireAuthorities } from '../../domain/pem.ts'

/** Metadata, keys and tokens are a few KiB. */
const MAX_RESPONSE_BYTES = 1024 * 1024

export interface ProviderFetch {
  readonly fetch: CustomFetch
  stop(): Promise<void>
}

/** HTTP to the provider, with its own CA if configured, bounded in time and size. */
export function createProviderFetch(settings: {
  readonly caFile?: string | undefined
  readonly timeoutMs: number
}): ProviderFetch {
  const { caFile, timeoutMs } = settings
  const ca = caFile === undefined ? undefined : readNamedFile(caFile, 'console.oidc.caFile')
  if (ca !== undefined) requireAuthorities(ca, 'console.oidc.caFile')
  const agent = new Agent({
    connect: { timeout: timeoutMs, ...(ca === undefined ? {} : { ca }) },
    headersTimeout: timeoutMs,
    bodyTimeout: timeoutMs,
    maxResponseSize: MAX_RESPONSE_BYTES,
  })
  return {
    // undici and Node declare the same Response and options twice.
    fetch: async (url, options) =>
      (await fetch(url, { ...(options as RequestInit), dispatcher: agent })) as unknown as Response,
    stop: () => agent.destroy(),
  }
}
