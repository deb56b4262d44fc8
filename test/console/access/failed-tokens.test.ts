import { randomBytes } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { importSigningSecret, mintSecret } from '../../../src/domain/key/secret.ts'
import { adminTokensIn } from '../../support/admin-tokens.ts'
import { ADMIN_TOKEN, type RunningConsole, SIGNING_SECRET, startConsole } from '../../support/console.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { openDatabase } from '../../support/open-database.ts'

const LIMITED = { signIn: { failedTokensPerMinute: 3, trustedProxies: ['127.0.0.1'] } }
const PATH = '/admin/v1/workspaces/ws_1/keys'
const from = (address: string, token: string) => ({
  headers: { authorization: `Bearer ${token}`, 'x-forwarded-for': address },
})
const tryToken = ({ send }: RunningConsole, address: string, token: string) =>
  send('GET', PATH, undefined, from(address, token))

describe('failed attempts with a token', () => {
  test('are limited by client address, and say when to try again', async () => {
    const running = await startConsole(LIMITED)
    const answers = []
    for (let times = 0; times < 5; times++) answers.push(await tryToken(running, '203.0.113.1', 'wrong'))
    expect(answers.map(answer => answer.status)).toEqual([401, 401, 401, 429, 429])
    expect(answers[4]?.body).toMatchObject({ code: 'rate_limited' })
    expect(Number(answers[4]?.headers['retry-after'])).toBeGreaterThan(0)
    expect((await tryToken(running, '203.0.113.2', 'wrong')).status).toBe(401)
  })

  test('do not lock other clients out: a good token works from the same address', async () => {
    const running = await startConsole(LIMITED)
    const body = { name: 'ci', permissions: ['keys:read'], expiresInDays: 1 }
    const { secret } = (await running.send('POST', '/admin/v1/tokens', body)).body
    for (let times = 0; times < 5; times++) await tryToken(running, '203.0.113.1', 'wrong')
    expect((await tryToken(running, '203.0.113.1', secret)).status).toBe(200)
    expect((await tryToken(running, '203.0.113.1', ADMIN_TOKEN)).status).toBe(200)
    expect((await tryToken(running, '203.0.113.1', 'wrong')).status).toBe(429)
  })

  test('are only those that present a token', async () => {
    const running = await startConsole(LIMITED)
    for (let times = 0; times < 5; times++) {
      const answer = await running.app.inject({ method: 'GET', url: PATH })
      expect(answer.statusCode).toBe(401)
    }
  })

  test('cost no query for a token that was never made here', async () => {
    const database = await openDatabase('sqlite::memory:')
    const tokens = adminTokensIn(database, new ManualClock())
    const secret = mintSecret('pat_', randomBytes(32), importSigningSecret(SIGNING_SECRET)).reveal()
    const forged = mintSecret('pat_', randomBytes(32), importSigningSecret(randomBytes(32))).reveal()
    expect(await tokens.identify(secret)).toBeNull()
    await database.close()
    for (const junk of [forged, '', 'pat_', secret.replace('pat_', 'wsk_'), `${secret}x`]) {
      expect(await tokens.identify(junk)).toBeNull()
    }
    await expect(tokens.identify(secret)).rejects.toThrow()
  })
})
