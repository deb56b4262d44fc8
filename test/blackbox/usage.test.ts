import { expect, onTestFinished, test } from 'vitest'
import { digestKey } from '../../src/domain/key/secret.ts'
import { expectToFit, schemaAt } from '../byo/contract.ts'
import { recordOf } from '../support/key-records.ts'
import { startPostern } from '../support/postern-process.ts'
import { RecordingUpstream } from '../support/recording-upstream.ts'
import { KEY_SERVICE_TOKEN, ScriptedKeyService } from '../support/scripted-key-service.ts'
import { startWorld } from '../support/world.ts'

/** Opaque keys, as a custom key service may issue them. */
const KEYS = { used: 'secret-of-a-key-that-is-used', refused: 'secret-of-a-key-that-is-refused' }

test('the key service receives what each known key did, and why requests were refused', async () => {
  const keyService = await ScriptedKeyService.start()
  const upstream = await RecordingUpstream.start()
  const expiresAtMs = Date.now() + 3_600_000
  const used = recordOf({ id: 'key_used', expiresAtMs })
  keyService.records.set(digestKey(KEYS.used), used)
  keyService.records.set(
    digestKey(KEYS.refused),
    recordOf({ id: 'key_refused', expiresAtMs: Date.now() - 1 }),
  )
  const gateway = await startPostern('gateway', {
    POSTERN_KEYS_FORMAT: 'opaque',
    POSTERN_KEY_SERVICE_URL: keyService.url,
    POSTERN_KEY_SERVICE_TOKEN: KEY_SERVICE_TOKEN,
    POSTERN_UPSTREAM_URL: upstream.url,
    POSTERN_DRAIN_DELAY_MS: '0',
    // The one report is that of the end.
    POSTERN_USAGE_REPORT_SECONDS: '300',
  })
  onTestFinished(async () => {
    await gateway.process.stop()
    await upstream.stop()
    await keyService.stop()
  })
  const statusOf = async (path: string, key: string) => {
    const headers = { authorization: `Bearer ${key}`, 'x-request-id': `about-${path.length}` }
    return (await fetch(`${gateway.urls.gateway}/api/v1/${path}`, { headers })).status
  }
  expect(await statusOf('workspaces/ws_1', KEYS.used)).toBe(200)
  expect(await statusOf('workspaces/ws_2?limit=hidden', KEYS.used)).toBe(404)
  expect(await statusOf('auth', KEYS.refused)).toBe(401)
  expect(await statusOf('auth', 'secret-of-no-key')).toBe(401)
  expect((await gateway.process.stop('SIGTERM')).code).toBe(0)
  expect(keyService.used.map(Object.keys)).toEqual([['key_used']])
  const [report] = keyService.usageReports
  expectToFit(
    schemaAt('/paths/~1internal~1v1~1usage/post/requestBody/content/application~1json/schema'),
    report,
  )
  const refusal = { at: expect.any(Number), address: '127.0.0.0/24' }
  expect(report).toMatchObject({
    sequence: 1,
    counts: expect.arrayContaining([
      { keyId: 'key_used', route: 'workspace', code: 'ok', minute: expect.any(Number), count: 1 },
      { keyId: 'key_used', route: 'workspace', code: 'not_found', minute: expect.any(Number), count: 1 },
      { keyId: 'key_refused', route: 'auth', code: 'key_expired', minute: expect.any(Number), count: 1 },
    ]),
    refusals: [
      {
        ...refusal,
        keyId: 'key_used',
        route: 'workspace',
        code: 'not_found',
        reason: 'other_workspace',
        requestId: 'about-28',
      },
      {
        ...refusal,
        keyId: 'key_refused',
        route: 'auth',
        code: 'key_expired',
        reason: 'key_expired',
        requestId: 'about-4',
      },
    ],
  })
  expect(JSON.stringify(report)).not.toMatch(/secret-of|ws_2|hidden/)
})

test('the console shows when a key was last used', async () => {
  const world = await startWorld()
  onTestFinished(() => world.stop())
  const [used, unused] = [await world.issue(), await world.issue()]
  const headers = { authorization: `Bearer ${used.secret}` }
  expect((await fetch(`${world.gateway.urls.gateway}/api/v1/auth`, { headers })).status).toBe(200)
  expect((await world.gateway.process.stop('SIGTERM')).code).toBe(0)
  const lastUsedAt = async (id: string) => {
    const { key } = (await world.admin('GET', `/keys/${id}`)).json
    return (key as { lastUsedAt: string | null }).lastUsedAt
  }
  expect(await lastUsedAt(unused.id)).toBeNull()
  expect(Date.now() - Date.parse((await lastUsedAt(used.id)) ?? '')).toBeLessThan(120_000)
})
