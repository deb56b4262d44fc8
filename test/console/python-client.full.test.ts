import { execFile } from 'node:child_process'
import { copyFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { ADMIN_CALLS } from '../../src/console/api-reference/admin-api.ts'
import { adminDocument } from '../support/admin-contract.ts'
import { ADMIN_TOKEN, startConsole } from '../support/console.ts'
import { pythonEnvironment } from '../support/python-environment.ts'
import { RedisServer } from '../support/redis-server.ts'
import { temporaryDirectory } from '../support/temporary-directory.ts'
import { has, PYTHON } from '../support/tools.ts'
import { until } from '../support/until.ts'

const ROUND_TRIP = fileURLToPath(new URL('admin-client/round_trip.py', import.meta.url))
/** What the generator does not know by itself, as docs/admin-api.md has it. */
const SETTINGS = 'content_type_overrides: { application/x-ndjson: text/plain }\npost_hooks: []\n'
const run = promisify(execFile)

describe.skipIf(!has(PYTHON))('a Python client generated from the OpenAPI document', () => {
  beforeAll(() => void pythonEnvironment('clientGenerator'), 300_000)

  test('is made without a warning, and calls the whole admin API of a console', async () => {
    const python = join(pythonEnvironment('clientGenerator'), 'python3')
    const directory = temporaryDirectory()
    const inside = (name: string) => join(directory, name)
    writeFileSync(inside('admin-api.json'), JSON.stringify(adminDocument()))
    writeFileSync(inside('settings.yaml'), SETTINGS)
    copyFileSync(ROUND_TRIP, inside('round_trip.py'))
    const place = ['--path', inside('admin-api.json'), '--output-path', inside('admin_client')]
    const flags = ['--config', inside('settings.yaml'), '--meta', 'none', '--fail-on-warning']
    const generated = await run(python, [...['-m', 'openapi_python_client', 'generate', ...place, ...flags]])
    expect(`${generated.stdout}${generated.stderr}`).not.toMatch(/warning/i)

    const redis = await RedisServer.start()
    onTestFinished(() => redis.stop())
    const options = { redisUrl: redis.url, workspaceWebhooks: { enabled: true } }
    const { app, console: running } = await startConsole(options)
    const called = new Set<string>()
    app.addHook(
      'onResponse',
      async ({ method, routeOptions }) => void called.add(`${method} ${routeOptions.url}`),
    )
    await until('Redis is ready', async () => (await running.health()).announcer === 'ready')
    const origin = await app.listen({ host: '127.0.0.1', port: 0 })
    await run(python, [inside('round_trip.py'), origin, ADMIN_TOKEN], { cwd: directory })
    const missing = ADMIN_CALLS.filter(({ method, url }) => !called.has(`${method} /admin/v1${url}`))
    expect(missing.map(({ id }) => id)).toEqual([])
  })
})
