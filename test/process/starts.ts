import { Parts } from '../support/parts.ts'
import { until } from '../support/until.ts'

/** The admin token, and settings of every gateway and console of these tests. */
export const { adminToken: ADMIN_TOKEN, shared: SHARED } = new Parts()

/** Tests listen on one address; these let the program choose, as outside of tests. */
export const DEFAULT_HOSTS = {
  POSTERN_GATEWAY_HOST: '',
  POSTERN_CONSOLE_HOST: '',
  POSTERN_CONSOLE_INTERNAL_HOST: '',
  POSTERN_OPS_HOST: '',
}

interface Readiness {
  readonly code: number
  readonly says: Record<string, unknown>
}

export async function readiness(opsUrl: string): Promise<Readiness> {
  const answer = await fetch(`${opsUrl}/readyz`)
  return { code: answer.status, says: (await answer.json()) as Record<string, unknown> }
}

/** Milliseconds until `/readyz` fulfils the condition. */
export async function recovery(
  opsUrl: string,
  wanted: (says: Record<string, unknown>) => boolean,
): Promise<number> {
  const startedAtMs = performance.now()
  await until('/readyz reports recovery', async () => wanted((await readiness(opsUrl)).says), 20_000)
  return Math.round(performance.now() - startedAtMs)
}

export async function issue(consoleUrl: string): Promise<Response> {
  return fetch(`${consoleUrl}/admin/v1/workspaces/ws_1/keys`, {
    method: 'POST',
    headers: { authorization: `Bearer ${ADMIN_TOKEN}`, 'content-type': 'application/json' },
    body: '{"name":"first","scopes":["workspace:read"]}',
  })
}
