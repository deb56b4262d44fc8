import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { promisify } from 'node:util'
import { describe, expect, onTestFinished, test } from 'vitest'
import { codeExamples } from '../../../src/console/platform/html/code-examples.ts'
import { CURL, has, PYTHON, type Tool } from '../../support/tools.ts'

const KEY = `wsk_${'A'.repeat(54)}`

/** Echoes the credentials, as no gateway would. */
async function startEcho(): Promise<string> {
  const server = createServer((request, response) => {
    response.end(JSON.stringify({ sent: request.headers.authorization }))
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  onTestFinished(() => void server.close())
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/api/v1/auth`
}

const RUNS: Readonly<Record<string, (code: string) => [program: string, parameters: string[]]>> = {
  curl: code => ['bash', ['-c', code]],
  JavaScript: code => [process.execPath, ['--input-type=module', '-e', code]],
  Python: code => ['python3', ['-c', code]],
}

const NEEDS: Readonly<Record<string, Tool>> = { curl: CURL, Python: PYTHON }

describe.each(['curl', 'JavaScript', 'Python'])('the example in %s', name => {
  const tool = NEEDS[name]
  test.skipIf(tool !== undefined && !has(tool))('sends the key that it is given', async () => {
    const example = codeExamples(await startEcho()).find(one => one.name === name)
    const [program, parameters] = RUNS[name]?.(example?.code ?? '') ?? ['false', []]
    const running = promisify(execFile)(program, parameters, {
      env: { ...process.env, KEY },
      timeout: 20_000,
    })
    running.child.stdin?.end(`${KEY}\n`)
    expect((await running).stdout).toContain(`Bearer ${KEY}`)
  })
})

test.each([
  ['Go', 'http.NewRequest("GET", "https://api.example.com/api/v1/auth", nil)'],
  ['PowerShell', 'Invoke-RestMethod "https://api.example.com/api/v1/auth" -Headers @{'],
])('the example in %s asks the same URL', (language, request) => {
  const example = codeExamples('https://api.example.com/api/v1/auth').find(({ name }) => name === language)
  expect(example?.code).toContain(request)
})
