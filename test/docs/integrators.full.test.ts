import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { freePort } from '../support/free-port.ts'
import { rawAnswer } from '../support/recording-upstream.ts'
import { CURL, has, type Tool } from '../support/tools.ts'
import { type IssuedKey, startWorld, type World } from '../support/world.ts'
import { clientIn } from './integrators-page.ts'

const BASH: Tool = { program: 'bash', debianPackage: 'bash' }
const PYTHON: Tool = { program: 'python3', debianPackage: 'python3' }
const GO: Tool = { program: 'go', debianPackage: 'golang-go' }
const FILES = '{"files":[]}'
const OTHER_WORKSPACE = 'ws_2'

const CLIENTS = [
  { name: 'curl', language: 'bash', file: 'files.sh', run: ['bash'], tools: [BASH, CURL] },
  { name: 'JavaScript', language: 'js', file: 'files.mjs', run: [process.execPath], tools: [] },
  { name: 'Python', language: 'python', file: 'files.py', run: ['python3'], tools: [PYTHON] },
  { name: 'Go', language: 'go', file: 'files.go', run: [], tools: [GO] },
]

let world: World
let revoked: IssuedKey
let directory: string
/** What the upstream answers to a key, by its id, in place of the files. */
const answers = new Map<string, () => string>()
beforeAll(async () => {
  directory = mkdtempSync(join(tmpdir(), 'postern-clients-'))
  const policies = [{ name: 'second', per: 'key', route: 'files', requests: 1, windowSeconds: 4 }]
  world = await startWorld({ POSTERN_LIMITS_POLICIES: JSON.stringify(policies) })
  revoked = await world.issue()
  await world.revoke(revoked.id)
  world.upstream.answer = request => answers.get(keyOf(request))?.() ?? answer(200, FILES)
})
afterAll(async () => {
  await world.stop()
  rmSync(directory, { recursive: true })
})

/** The id of the key that a request was permitted for. */
function keyOf(request: string): string {
  return /^x-postern-key-id: (\S+)/im.exec(request)?.[1] ?? ''
}

function requestsOf({ id }: IssuedKey): readonly string[] {
  return world.upstream.requests.filter(request => keyOf(request) === id)
}

function answer(status: number, body: string, ...fields: string[]): string {
  return rawAnswer(status, body, 'Content-Type: application/json', ...fields)
}

describe.each(CLIENTS)('the client in $name', { concurrent: true }, ({ language, file, run, tools }) => {
  describe.skipIf(!tools.every(has))('where the language is installed', () => {
    let command: readonly string[]
    beforeAll(() => {
      const path = join(directory, file)
      writeFileSync(path, clientIn(language))
      const program = join(directory, 'files')
      if (language === 'go') execFileSync('go', ['build', '-o', program, path])
      command = language === 'go' ? [program] : [...run, path]
    })

    async function runClient(key: IssuedKey, workspace = 'ws_1', url = world.gateway.urls.gateway) {
      const [program = '', ...args] = command
      const child = spawn(program, args, {
        env: {
          ...process.env,
          API_URL: url,
          API_KEY: key.secret,
          WORKSPACE: workspace,
        },
      })
      const [output, errors, [code]] = await Promise.all([
        text(child.stdout),
        text(child.stderr),
        once(child, 'exit'),
      ])
      return { code, output, errors }
    }

    test('prints the files of the workspace', async () => {
      const { code, output, errors } = await runClient(await world.issue())
      expect({ code, errors }).toEqual({ code: 0, errors: '' })
      expect(JSON.parse(output)).toEqual(JSON.parse(FILES))
    })

    test('reports a revoked key at once, without a retry', async () => {
      const { code, errors } = await runClient(revoked)
      expect(code).toBe(1)
      expect(errors).toMatch(
        /the key was not accepted.*401.*key_revoked|the key was not accepted.*key_revoked/i,
      )
    })

    test('names the address that does not answer', async () => {
      const url = `http://127.0.0.1:${await freePort()}`
      const { code, output, errors } = await runClient(revoked, 'ws_1', url)
      expect([code === 0, output]).toEqual([false, ''])
      expect(errors).toContain(new URL(url).port)
    })

    test('reports a workspace that the key cannot see, with the request id', async () => {
      const key = await world.issue()
      const { code, errors } = await runClient(key, OTHER_WORKSPACE)
      expect(code).toBe(1)
      expect(errors).toMatch(/no such resource for this key.*not_found.*\(request [\w-]+\)/i)
      expect(requestsOf(key)).toEqual([])
    })

    test('waits out a rate limit', async () => {
      const key = await world.issue()
      const headers = { authorization: `Bearer ${key.secret}` }
      const target = `${world.gateway.urls.gateway}/api/v1/workspaces/ws_1/files`
      // The window is used up before the client starts, and again if it ended meanwhile.
      expect((await fetch(target, { headers })).status).toBe(200)
      const { code, output } = await runClient(key)
      expect(code).toBe(0)
      expect(JSON.parse(output)).toEqual(JSON.parse(FILES))
      expect(requestsOf(key)).toHaveLength(2)
    })

    test('waits as long as a 503 says, then succeeds', async () => {
      const key = await world.issue()
      const atMs: number[] = []
      answers.set(key.id, () => {
        atMs.push(performance.now())
        return atMs.length === 1 ? answer(503, '{}', 'Retry-After: 5') : answer(200, FILES)
      })
      const { code, output } = await runClient(key)
      expect(code).toBe(0)
      expect(JSON.parse(output)).toEqual(JSON.parse(FILES))
      const [first = 0, second = 0] = atMs
      expect(atMs).toHaveLength(2)
      expect(second - first).toBeGreaterThanOrEqual(5000)
    })

    test('reports at once that a limit is used up for days, in place of a wait that no timer can count', async () => {
      const key = await world.issue()
      answers.set(key.id, () => answer(503, '{}', 'Retry-After: 2592000'))
      const { code, errors } = await runClient(key)
      expect(code).toBe(1)
      expect(errors).toMatch(/retry after (2592000 seconds|720h0m0s)/i)
      expect(requestsOf(key)).toHaveLength(1)
    })
  })
})
