import { readdirSync, statSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import type { TestProject } from 'vitest/node'
import { ensureRedis } from './redis-program.ts'
import { missingTools } from './tools.ts'

const SOURCES = fileURLToPath(new URL('../../src/', import.meta.url))
const BUILT = fileURLToPath(new URL('../../dist/main.js', import.meta.url))

/** Runs once before all suites: finds a Redis, or fetches one. Where tests cannot run, one sentence says so. */
export default async function setup({ config }: TestProject): Promise<void> {
  const problem = (await ensureRedis()) ?? problemOf(config)
  if (problem === null) return
  process.stderr.write(`${problem}\n`)
  // As an error of the test runner it would have a stack, and a complaint that no test was found.
  process.exit(1)
}

function problemOf(config: TestProject['config']): string | null {
  const missing = missingTools()
  if (missing !== '' && process.env['CI'] === 'true') {
    return `With CI=true no suite may be left out, but these tools are missing: ${missing}`
  }
  if (config.env['TEST_FORM'] === 'built' && !isBuiltOfSources()) {
    return 'This suite runs what is in dist, which is missing or older than src: npm run build'
  }
  return null
}

function isBuiltOfSources(): boolean {
  const builtAtMs = statSync(BUILT, { throwIfNoEntry: false })?.mtimeMs ?? 0
  const files = readdirSync(SOURCES, { recursive: true, withFileTypes: true })
  return files.every(
    file => !file.isFile() || statSync(`${file.parentPath}/${file.name}`).mtimeMs <= builtAtMs,
  )
}
