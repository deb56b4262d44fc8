import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { rawAnswer } from '../support/recording-upstream.ts'
import { temporaryDirectory } from '../support/temporary-directory.ts'
import { CURL, has, type Tool } from '../support/tools.ts'
import { type IssuedKey, startWorld, type World } from '../support/world.ts'
import { clientIn } from './integrators-page.ts'

const BASH: Tool = { program: 'bash', debianPackage: 'bash' }
const PYTHON: Tool = { program: 'python3', debianPackage: 'python3' }
const GO: Tool = { program: 'go', debianPackage: 'golang-go' }
const FILES = '{"files":[]}'
const OTHER_WORKSPACE = 'ws_2'
/** Compilers start slowly on a loaded machine, and the clients themselves wait about 10 s in total. */
const TIMEOUT_MS = 120_000

const CLIENTS = [
  { name: 'curl', language: 'bash', file: 'files.sh', run: ['bash'], tools: [BASH, CURL] },
  { name: 'JavaScript', language: 'js', file: 'files.mjs', run: [process.execPath], tools: [] },
  { name: 'Python', language: 'python', file: 'files.py', run: ['python3'], tools: [PYTHON] },
  { name: 'Go', language: 'go', file: 'files.go', run: ['go', 'run'], tools: [GO] },
]

let world: World
let key: IssuedKey
let revoked: IssuedKey
beforeAll(async () => {
  const policies = [{ name: 'second', per: 'key', route: 'files', requests: 1, windowSeconds: 4 }]
  world = await startWorld({ POSTERN_LIMITS_POLICIES: JSON.stringify(policies) })
  revoked = await world.issue()
  await world.revoke(revoked.id)
}, TIMEOUT_MS)
afterAll(() => world.stop())
beforeEach(async () => {
  world.upstream.reset()
  world.upstream.answer = () => answer(200, FILES)
  key = await world.issue()
})

function answer(status: number, body: string, ...fields: string[]): string {
  return rawAnswer(status, body, 'Content-Type: application/json', ...fields)
}

describe.each(CLIENTS)('the client in $name', ({ language, file, run, tools }) => {
  describe.skipIf(!tools.every(has))('where the language is installed', () => {
    async function runClient(settings: { key?: IssuedKey; workspace?: string } = {}) {
      const path = join(temporaryDirectory(), file)
      writeFileSync(path, clientIn(language))
      const [program = '', ...args] = run
      const child = spawn(program, [...args, path], {
        env: {
          ...process.env,
          API_URL: world.gateway.urls.gateway,
          API_KEY: (settings.key ?? key).secret,
          WORKSPACE: settings.workspace ?? 'ws_1',
        },
      })
      const [output, errors, [code]] = await Promise.all([
        text(child.stdout),
        text(child.stderr),
        once(child, 'exit'),
      ])
      return { code, output, errors }
    }

    test('prints the files of the workspace', { timeout: TIMEOUT_MS }, async () => {
      const { code, output, errors } = await runClient()
      expect({ code, errors }).toEqual({ code: 0, errors: '' })
      expect(JSON.parse(output)).toEqual(JSON.parse(FILES))
    })

    test('reports a revoked key at once, without a retry', { timeout: TIMEOUT_MS }, async () => {
      const { code, errors } = await runClient({ key: revoked })
      expect(code).toBe(1)
      expect(errors).toMatch(
        /the key was not accepted.*401.*key_revoked|the key was not accepted.*key_revoked/i,
      )
    })

    test('reports a workspace that the key cannot see', { timeout: TIMEOUT_MS }, async () => {
      const { code, errors } = await runClient({ workspace: OTHER_WORKSPACE })
      expect(code).toBe(1)
      expect(errors).toMatch(/no such resource for this key.*not_found/i)
      expect(world.upstream.requests).toEqual([])
    })

    test('waits out a rate limit', { timeout: TIMEOUT_MS }, async () => {
      const headers = { authorization: `Bearer ${key.secret}` }
      const target = `${world.gateway.urls.gateway}/api/v1/workspaces/ws_1/files`
      // The window is used up before the client starts, and again if it ended while the client was compiled.
      expect((await fetch(target, { headers })).status).toBe(200)
      const { code, output } = await runClient()
      expect(code).toBe(0)
      expect(JSON.parse(output)).toEqual(JSON.parse(FILES))
      expect(world.upstream.requests).toHaveLength(2)
    })

    test('waits as long as a 503 says, then succeeds', { timeout: TIMEOUT_MS }, async () => {
      const atMs: number[] = []
      world.upstream.answer = () => {
        atMs.push(performance.now())
        return atMs.length === 1 ? answer(503, '{}', 'Retry-After: 5') : answer(200, FILES)
      }
      const { code, output } = await runClient()
      expect(code).toBe(0)
      expect(JSON.parse(output)).toEqual(JSON.parse(FILES))
      const [first = 0, second = 0] = atMs
      expect(atMs).toHaveLength(2)
      expect(second - first).toBeGreaterThanOrEqual(5000)
    })
  })
})
