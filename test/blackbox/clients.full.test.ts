import { execFile } from 'node:child_process'
import { tmpdir } from 'node:os'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { GO, has, JAVA } from '../support/tools.ts'
import { type IssuedKey, startWorld, type World } from '../support/world.ts'

const run = promisify(execFile)
const fileOf = (name: string) => fileURLToPath(new URL(`clients/${name}`, import.meta.url))
const WORKSPACE = '/api/v1/workspaces/ws_1'
const NEW_KEY = '{"name":"CI","scopes":["files:read"]}'

let world: World
let key: IssuedKey
beforeAll(async () => {
  world = await startWorld()
  key = await world.issue()
})
afterAll(() => world.stop())

const CLIENTS = [
  { name: 'Java', command: ['java', fileOf('Client.java')], isHere: has(JAVA) },
  { name: 'Go', command: ['go', 'run', fileOf('client.go')], isHere: has(GO), waitsWithoutBody: true },
] as const

describe.each(CLIENTS)('the HTTP client of $name, which offers an upgrade or waits for a 100,', client => {
  test.skipIf(!client.isHere)('is served on every listener', async () => {
    const { gateway, console } = world
    const [program, ...words] = client.command
    const token = world.cliEnv['POSTERN_ADMIN_TOKEN'] ?? ''
    const keys = `${console.urls.console}/admin/v1/workspaces/ws_1/keys`
    const requests = [
      ['GET', `${gateway.urls.gateway}/api/v1/auth`, key.secret, '-'],
      ['GET', `${gateway.urls.gateway}${WORKSPACE}`, key.secret, '-'],
      ['GET', `${gateway.urls.gateway}${WORKSPACE}`, 'wrong', '-'],
      ['GET', keys, token, '-'],
      ['POST', keys, token, NEW_KEY],
      ['POST', keys, token, `continue:${NEW_KEY}`],
      ['GET', `${console.urls.ops}/livez`, token, '-'],
    ]
    const statuses = [200, 200, 401, 200, 201, 201, 200]
    // Java 17 waits for a 100 for ever, also if the response is there.
    if ('waitsWithoutBody' in client) {
      requests.push(['GET', `${gateway.urls.gateway}${WORKSPACE}`, key.secret, 'continue:-'])
      requests.push(['POST', keys, 'wrong', `continue:${NEW_KEY}`])
      statuses.push(200, 401)
    }
    const { stdout } = await run(program, [...words, ...requests.flat()], { cwd: tmpdir() })
    expect(stdout.trim().split('\n').map(Number)).toEqual(statuses)
  })
})
