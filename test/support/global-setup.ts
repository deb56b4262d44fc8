import { readdirSync, statSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import type { TestProject } from 'vitest/node'
import { ensureRedis } from './redis-program.ts'
import { missingTools } from './tools.ts'

const SOURCES = fileURLToPath(new URL('../../src/', import.meta.url))
const BUILT = fileURLToPath(new URL('../../dist/main.js', import.meta.url))

/** Runs once before all suites: finds a Redis, or fetches one. @throws if the suite would run an older build than the sources */
export default async function setup({ config }: TestProject): Promise<void> {
  await ensureRedis()
  const missing = missingTools()
  if (missing !== '' && process.env['CI'] === 'true') {
    throw new Error(`With CI=true no suite may be left out, but these tools are missing: ${missing}`)
  }
  if (config.env['TEST_FORM'] === 'built' && !isBuiltOfSources()) {
    throw new Error('This suite runs what is in dist, which is missing or older than src: npm run build')
  }
}

function isBuiltOfSources(): boolean {
  const builtAtMs = statSync(BUILT, { throwIfNoEntry: false })?.mtimeMs ?? 0
  const files = readdirSync(SOURCES, { recursive: true, withFileTypes: true })
  return files.every(
    file => !file.isFile() || statSync(`${file.parentPath}/${file.name}`).mtimeMs <= builtAtMs,
  )
}
