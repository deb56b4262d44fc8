import { request } from 'node:http'
import { json } from 'node:stream/consumers'
import type { World } from '../../support/world.ts'

export interface AdminResponse {
  readonly status: number
  readonly json: Record<string, unknown>
}

/** Longer than any fault lasts. */
const PATIENCE_MS = 10_000

/**
 * Sends a POST to the admin API on a new connection, so that no idle connection remains.
 * @returns null if there was no response, so that it is unknown whether the change was made
 */
export function adminCall(world: World, path: string, body?: unknown): Promise<AdminResponse | null> {
  const { promise, resolve } = Promise.withResolvers<AdminResponse | null>()
  const headers = {
    authorization: `Bearer ${world.cliEnv['POSTERN_ADMIN_TOKEN']}`,
    ...(body === undefined ? {} : { 'content-type': 'application/json' }),
  }
  const signal = AbortSignal.timeout(PATIENCE_MS)
  const url = `${world.console.urls.console}/admin/v1${path}`
  request(url, { method: 'POST', agent: false, headers, signal })
    .on('response', response => {
      json(response).then(
        answer => resolve({ status: response.statusCode ?? 0, json: answer as AdminResponse['json'] }),
        () => resolve(null),
      )
    })
    .on('error', () => resolve(null))
    .end(body === undefined ? undefined : JSON.stringify(body))
  return promise
}
