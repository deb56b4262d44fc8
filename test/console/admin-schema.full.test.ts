import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { text as readAll } from 'node:stream/consumers'
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { ADMIN_CALLS } from '../../src/console/api-reference/admin-api.ts'
import { ADMIN_TOKEN, startConsole } from '../support/console.ts'
import { pythonEnvironment } from '../support/python-environment.ts'
import { RedisServer } from '../support/redis-server.ts'
import { runs } from '../support/runs.ts'
import { temporaryDirectory } from '../support/temporary-directory.ts'
import { has, PYTHON } from '../support/tools.ts'
import { until } from '../support/until.ts'

const CHECKS = [
  'not_a_server_error',
  'status_code_conformance',
  'content_type_conformance',
  'response_headers_conformance',
  'response_schema_conformance',
]

describe.skipIf(!has(PYTHON))('the admin API under generated requests', () => {
  beforeAll(() => void pythonEnvironment('schemathesis'), 300_000)

  test('never fails, and answers only as its OpenAPI document says', async () => {
    const redis = await RedisServer.start()
    onTestFinished(() => redis.stop())
    const { app, console: running } = await startConsole({ redisUrl: redis.url })
    await until('Redis is ready', async () => (await running.health()).announcer === 'ready')
    const origin = await app.listen({ host: '127.0.0.1', port: 0 })
    const program = spawn(
      join(pythonEnvironment('schemathesis'), 'python3'),
      [
        ...['-c', 'from schemathesis.cli import schemathesis; schemathesis()'],
        ...['run', `${origin}/admin/v1/openapi.json`, '--url', `${origin}/admin/v1`],
        ...['--header', `Authorization: Bearer ${ADMIN_TOKEN}`, '--checks', CHECKS.join(',')],
        ...['--phases', 'examples,coverage,fuzzing', '--max-examples', String(runs(6, 50)), '--workers', '1'],
        '--generation-deterministic',
        ...['--continue-on-failure', '--no-color', '--warnings', 'off', '--max-response-time', '10'],
      ],
      { cwd: temporaryDirectory(), stdio: ['ignore', 'pipe', 'pipe'] },
    )
    const [output, errors, [code]] = await Promise.all([
      readAll(program.stdout),
      readAll(program.stderr),
      once(program, 'exit'),
    ])
    expect(code, `${output}${errors}`).toBe(0)
    // All but the call that returns the document.
    expect(output).toContain(`${ADMIN_CALLS.length - 1} selected /`)
  })
})
