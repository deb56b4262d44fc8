import { once } from 'node:events'
import { get, type IncomingMessage } from 'node:http'
import { join } from 'node:path'
import type { FastifyInstance } from 'fastify'
import { sql } from 'kysely'
import { describe, expect, onTestFinished, test } from 'vitest'
import { ADMIN_TOKEN, type ConsoleOptions, type RunningConsole, startConsole } from '../support/console.ts'
import { ManualClock } from '../support/manual-clock.ts'
import { openDatabase } from '../support/open-database.ts'
import { CONSOLE, SESSION_COOKIE, startSignIn } from '../support/signed-in.ts'
import { databaseDirectory } from '../support/temporary-directory.ts'

const ROWS = 500
/** Of each row: all together are several times of what sockets and streams hold for a client that does not read. */
const LONG = 'x'.repeat(20_000)
const DAY_MS = 86_400_000
const someRows = sql`with recursive numbers (n) as (select 1 union all select n + 1 from numbers where n < ${sql.lit(ROWS)})`

async function fill(databaseUrl: string): Promise<void> {
  const { writer, close } = await openDatabase(databaseUrl)
  await sql`${someRows} insert into keys (id, digest, workspace_id, name, scopes, hint, created_at_ms, created_by, expires_at_ms,
      allowed_cidrs, version, changed_at_ms)
    select printf('key_%026d', n), printf('%064d', n), 'ws_1', 'name', '[]', 'hint', 0, 'test', 0, ${JSON.stringify([LONG])}, 1, 0
    from numbers`.execute(writer)
  await close()
}

async function started<Running extends { readonly app: FastifyInstance }>(
  start: (options: ConsoleOptions) => Promise<Running>,
) {
  const databaseUrl = `sqlite:${join(databaseDirectory(), 'streams.db')}`
  const clock = new ManualClock()
  await fill(databaseUrl)
  const running = await start({ databaseUrl, parts: { clock } })
  const origin = await running.app.listen({ host: '127.0.0.1', port: 0 })
  const begin = async (path: string, headers: Record<string, string>) => {
    const request = get(`${origin}/admin/v1${path}`, { headers })
    onTestFinished(() => void request.destroy())
    // The type of `once` does not know the event's arguments.
    const [response] = (await once(request, 'response')) as [IncomingMessage]
    expect(response.statusCode).toBe(200)
    await once(response, 'readable')
    return response
  }
  return { ...running, clock, begin }
}

/** Reads what is left. */
async function readOn(response: IncomingMessage): Promise<{ lines: number; isWhole: boolean }> {
  let lines = 0
  response.on('data', (part: Buffer) => {
    for (let at = part.indexOf(10); at >= 0; at = part.indexOf(10, at + 1)) lines++
  })
  response.on('error', () => {})
  await new Promise<void>(resolve => response.once('close', resolve))
  return { lines, isWhole: response.complete }
}

async function newToken({ send }: Pick<RunningConsole, 'send'>) {
  const request = { name: 'exporter', permissions: ['keys:write', 'audit:read'], expiresInDays: 1 }
  const { body } = await send('POST', '/admin/v1/tokens', request)
  return { id: body.token.id, headers: { authorization: `Bearer ${body.secret}` } }
}

/** The export of the audit log is sent by the same function. */
const PATH = '/keys/export'

describe('a running export', () => {
  test('breaks off once its token is revoked', async () => {
    const running = await started(startConsole)
    const { id, headers } = await newToken(running)
    const response = await running.begin(PATH, headers)
    await running.send('POST', `/admin/v1/tokens/${id}/revoke`)
    const { lines, isWhole } = await readOn(response)
    expect(isWhole).toBe(false)
    expect(lines).toBeLessThan(ROWS)
  })

  test('breaks off once its token has expired', async () => {
    const running = await started(startConsole)
    const response = await running.begin(PATH, (await newToken(running)).headers)
    running.clock.advance(DAY_MS)
    expect(await readOn(response)).toMatchObject({ isWhole: false })
  })

  test('breaks off once its person has signed out', async () => {
    const oidc = { administratorClaim: 'roles', administratorValue: 'admin' }
    const running = await started(options => startSignIn({ ...options, signIn: { oidc } }))
    const { browser, csrf } = await running.signedIn({ sub: 'ada', name: 'Ada', roles: ['admin'] })
    const session = browser.cookies.get(new URL(CONSOLE).host)?.get(SESSION_COOKIE)?.value ?? ''
    const headers = { host: new URL(CONSOLE).host, cookie: `${SESSION_COOKIE}=${session}` }
    const response = await running.begin(PATH, headers)
    await browser.post('/sign-out', { _csrf: csrf })
    expect(await readOn(response)).toMatchObject({ isWhole: false })
  })

  test('goes on to its end for a token that stays good', async () => {
    const running = await started(startConsole)
    const response = await running.begin(PATH, { authorization: `Bearer ${ADMIN_TOKEN}` })
    const { lines, isWhole } = await readOn(response)
    expect(isWhole).toBe(true)
    expect(lines).toBeGreaterThanOrEqual(ROWS)
  })
})
