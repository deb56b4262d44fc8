import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import type { AdminResponse } from '../support/admin-response.ts'
import { PosternProcess } from '../support/postern-process.ts'
import { RecordingUpstream } from '../support/recording-upstream.ts'
import { RedisServer } from '../support/redis-server.ts'
import { FIRST_RELEASE, findReleaseBefore, unpackProgram } from '../support/release-before.ts'
import { SIGNING_SECRET } from '../support/signing-secret.ts'
import { temporaryDirectory } from '../support/temporary-directory.ts'
import { until } from '../support/until.ts'

type Release = 'before' | 'today'
const TOKEN = 'key-service-token-of-two-releases'
const ADMIN_TOKEN = 'admin-token-of-two-releases'
const before = findReleaseBefore()
/** 0.1.0 has another name for the key service, and no listener of its own for it. */
const isFirst = before === FIRST_RELEASE
const nameOf = (release: Release) => (release === 'before' && isFirst ? 'ORIGIN' : 'KEY_SERVICE')

describe.skipIf(before === null)(
  'planes of two releases (skipped without the history of the one before)',
  () => {
    let directory: string
    let program: readonly string[]
    let redis: RedisServer
    let upstream: RecordingUpstream
    beforeAll(async () => {
      directory = mkdtempSync(join(tmpdir(), 'postern-before-'))
      program = unpackProgram(before ?? '', directory)
      redis = await RedisServer.start()
      upstream = await RecordingUpstream.start()
    }, 180_000)
    afterAll(async () => {
      await Promise.all([redis.stop(), upstream.stop()])
      rmSync(directory, { recursive: true })
    })

    async function start(
      plane: 'console' | 'gateway',
      release: Release,
      more: Readonly<Record<string, string>>,
    ) {
      const env = {
        POSTERN_REDIS_URL: redis.url,
        POSTERN_KEYS_SIGNING_SECRETS: SIGNING_SECRET.toString('base64'),
        POSTERN_OPS_PORT: '0',
        ...more,
      }
      const process = new PosternProcess([plane], env, ...(release === 'before' ? [program] : []))
      onTestFinished(async () => void (await process.stop('SIGKILL')))
      return await process.logged(({ msg }) => msg === 'listening')
    }

    async function startConsole(release: Release) {
      const isOld = release === 'before' && isFirst
      const own = isOld
        ? { [`POSTERN_${nameOf(release)}_TOKEN`]: TOKEN }
        : { POSTERN_KEY_SERVICE_TOKEN: TOKEN, POSTERN_CONSOLE_INTERNAL_PORT: '0' }
      const listening = await start('console', release, {
        ...own,
        POSTERN_ADMIN_TOKEN: ADMIN_TOKEN,
        POSTERN_DATABASE_URL: `sqlite:${join(temporaryDirectory(), 'keys.db')}`,
        POSTERN_CONSOLE_PORT: '0',
      })
      return {
        url: String(listening['console']),
        keyService: String(isOld ? listening['console'] : listening['internal']),
      }
    }

    function startGateway(release: Release, keyService: string) {
      const name = nameOf(release)
      return start('gateway', release, {
        POSTERN_UPSTREAM_URL: upstream.url,
        POSTERN_GATEWAY_PORT: '0',
        [`POSTERN_${name}_URL`]: keyService,
        [`POSTERN_${name}_TOKEN`]: TOKEN,
      })
    }

    test.each<[Release, Release]>([
      ['today', 'before'],
      ['before', 'today'],
    ])(
      'a console of %s and a gateway of %s agree on a key that is issued, and on its revocation',
      async (newer, other) => {
        const console = await startConsole(newer)
        const gateway = await startGateway(other, console.keyService)
        const change = async (path: string, body: object) => {
          const response = await fetch(`${console.url}/admin/v1${path}`, {
            method: 'POST',
            headers: { authorization: `Bearer ${ADMIN_TOKEN}`, 'content-type': 'application/json' },
            body: JSON.stringify(body),
          })
          expect(response.ok).toBe(true)
          return (await response.json()) as AdminResponse
        }
        const { key, secret } = await change('/workspaces/ws_1/keys', {
          name: 'a',
          scopes: ['workspace:read'],
        })
        const request = async () => {
          const headers = { authorization: `Bearer ${secret}` }
          return (await fetch(`${gateway['gateway']}/api/v1/workspaces/ws_1`, { headers })).status
        }
        // The gateway trusts its memory once it receives heartbeats.
        await until('the gateway is connected', async () => {
          const metrics = await (await fetch(`${gateway['ops']}/metrics`)).text()
          return metrics.includes('postern_key_invalidation_connected 1')
        })
        expect(await request()).toBe(200)
        await change(`/keys/${key.id}/revoke`, {})
        await until('the revoked key is rejected', async () => (await request()) === 401)
      },
      60_000,
    )
  },
)
