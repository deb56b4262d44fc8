import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { pythonEnvironment } from './python-environment.ts'

const PAGE = readFileSync(new URL('../../docs/upstream.md', import.meta.url), 'utf8')
const MODULES = fileURLToPath(new URL('../../node_modules', import.meta.url))

/** A verifier answers one line for each assertion that it reads. */
export type Verdict = { readonly claims: Readonly<Record<string, unknown>> } | { readonly error: string }

export interface Verifier {
  verify(assertion: string): Promise<Verdict>
  stop(): Promise<void>
}

/** The example of docs/upstream.md in a language. */
function example(language: string): string {
  const [, text] = new RegExp(`^\`\`\`${language}\\n([\\s\\S]*?)^\`\`\``, 'm').exec(PAGE) ?? []
  if (text === undefined) throw new Error(`docs/upstream.md has no example in ${language}`)
  return text
}

const JAVASCRIPT = `
import { createInterface } from 'node:readline'
for await (const line of createInterface({ input: process.stdin })) {
  const verdict = await verify(line).then(claims => ({ claims }), error => ({ error: String(error) }))
  console.log(JSON.stringify(verdict))
}
`
const PYTHON = `

import json, sys
for line in sys.stdin:
    try:
        verdict = {"claims": verify(line.strip())}
    except Exception as error:
        verdict = {"error": repr(error)}
    print(json.dumps(verdict), flush=True)
`
const GO = `
func main() {
	verify, err := NewVerifier()
	if err != nil {
		panic(err)
	}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		claims, err := verify(lines.Text())
		verdict := map[string]any{"claims": claims}
		if err != nil {
			verdict = map[string]any{"error": err.Error()}
		}
		if err := json.NewEncoder(os.Stdout).Encode(verdict); err != nil {
			panic(err)
		}
	}
}
`
const GO_MODULE = `module verifier

go 1.22

require (
	github.com/MicahParks/keyfunc/v3 v3.9.0
	github.com/golang-jwt/jwt/v5 v5.3.1
)
`

/** Builds and starts the example of a language. @param directory for its files, which the caller removes */
export function startVerifier(
  language: 'js' | 'python' | 'go',
  directory: string,
  jwksUrl: string,
): Verifier {
  const home = join(directory, language)
  mkdirSync(home)
  const [program, args] = { js: javascript, python, go }[language](home)
  const child = spawn(program, args, {
    env: { PATH: process.env['PATH'], JWKS_URL: jwksUrl },
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  return {
    verify: async assertion => {
      child.stdin.write(`${assertion}\n`)
      const { value, done } = await lines.next()
      if (done === true) throw new Error(`The verifier in ${language} ended`)
      // Written by the programs above.
      return JSON.parse(value) as Verdict
    },
    stop: async () => {
      child.stdin.end()
      if (child.exitCode === null) await once(child, 'exit')
    },
  }
}

function javascript(home: string): [string, string[]] {
  symlinkSync(MODULES, join(home, 'node_modules'))
  writeFileSync(join(home, 'verify.mjs'), example('js') + JAVASCRIPT)
  return [process.execPath, [join(home, 'verify.mjs')]]
}

function python(home: string): [string, string[]] {
  writeFileSync(join(home, 'verify.py'), example('python') + PYTHON)
  return [join(pythonEnvironment('jwt'), 'python3'), [join(home, 'verify.py')]]
}

function go(home: string): [string, string[]] {
  writeFileSync(join(home, 'go.mod'), GO_MODULE)
  const source = example('go').replace('import (', 'import (\n\t"bufio"\n\t"encoding/json"') + GO
  writeFileSync(join(home, 'main.go'), source)
  execFileSync('go', ['build', '-mod=mod', '-o', 'verifier'], {
    cwd: home,
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  return [join(home, 'verifier'), []]
}
