import { readFileSync } from 'node:fs'
import type { CustomFetch } from 'openid-client'
import { Agent, fetch, type RequestInit } from 'undici'
import { requireAuthorities } from '../../domain/pem.ts'

/** Metadata, keys and tokens are a few KiB. */
const MAX_ANSWER_BYTES = 1024 * 1024

export interface ProviderFetch {
  readonly fetch: CustomFetch
  stop(): Promise<void>
}

/** HTTP to the provider: by its own authority where one is named, bounded in time and in size. */
export function createProviderFetch(settings: {
  readonly caFile?: string | undefined
  readonly timeoutMs: number
}): ProviderFetch {
  const { caFile, timeoutMs } = settings
  const ca = caFile === undefined ? undefined : readFileSync(caFile, 'utf8')
  if (ca !== undefined) requireAuthorities(ca, 'console.oidc.caFile')
  const agent = new Agent({
    connect: { timeout: timeoutMs, ...(ca === undefined ? {} : { ca }) },
    headersTimeout: timeoutMs,
    bodyTimeout: timeoutMs,
    maxResponseSize: MAX_ANSWER_BYTES,
  })
  return {
    // The Response of the package and that of Node are the same thing with two declarations, and so are their options.
    fetch: async (url, options) =>
      (await fetch(url, { ...(options as RequestInit), dispatcher: agent })) as unknown as Response,
    stop: () => agent.destroy(),
  }
}
