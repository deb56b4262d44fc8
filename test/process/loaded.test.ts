import { randomBytes } from 'node:crypto'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { PosternProcess, PROGRAM, startPostern } from '../support/postern-process.ts'
import { temporaryDirectory } from '../support/temporary-directory.ts'

const PRELOAD = fileURLToPath(new URL('../support/list-loaded.mjs', import.meta.url))
const LAUNCHER = [process.execPath, '--import', PRELOAD, ...PROGRAM]
const MANIFEST = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as {
  dependencies: Record<string, string>
}

/** Packages that every gateway needs. */
const ALWAYS = [
  // Required by prom-client.
  '@opentelemetry/api',
  'commander',
  'fastify',
  'ioredis',
  'lru-cache',
  'pino',
  'prom-client',
  'typebox',
  'undici',
  'yaml',
]

/** The modules that a program loaded, from the file in which it wrote its list. The source map of a built file names its modules. */
function readLoaded(file: string): string[] {
  const urls = JSON.parse(readFileSync(file, 'utf8')) as string[]
  return urls.flatMap(url => {
    const map = url.startsWith('file:') ? fileURLToPath(`${url}.map`) : ''
    if (!url.includes('/dist/') || url.includes('/node_modules/') || !existsSync(map)) return [url]
    const { sources } = JSON.parse(readFileSync(map, 'utf8')) as { sources: string[] }
    return sources.map(source => new URL(source, url).href)
  })
}

/** The modules that a gateway loads from start to exit. */
async function loadedBy(settings: Readonly<Record<string, string>> = {}): Promise<string[]> {
  const file = join(temporaryDirectory(), 'loaded.json')
  const env = {
    LOADED_FILE: file,
    POSTERN_KEYS_SIGNING_SECRETS: randomBytes(32).toString('base64'),
    POSTERN_REDIS_URL: 'redis://127.0.0.1:1',
    POSTERN_UPSTREAM_URL: 'http://127.0.0.1:1',
    POSTERN_DRAIN_DELAY_MS: '0',
    ...settings,
  }
  const gateway = await startPostern('gateway', env, [], LAUNCHER)
  expect((await gateway.process.stop('SIGTERM')).code).toBe(0)
  return readLoaded(file)
}

/** Direct dependencies only; their own dependencies are their choice. */
function packagesOf(loaded: readonly string[]): string[] {
  return Object.keys(MANIFEST.dependencies)
    .filter(name => loaded.some(url => url.includes(`/node_modules/${name}/`)))
    .sort()
}

test('a gateway loads no package of the console, of other commands, or of a feature that is off', async () => {
  const loaded = await loadedBy()
  expect(packagesOf(loaded)).toEqual(ALWAYS)
  expect(
    loaded.filter(url =>
      /\/src\/(?:console|doctor)\/|\/cli\/(?:client|output|commands\/(?!servers\.))/.test(url),
    ),
  ).toEqual([])
  expect(loaded).not.toContain('node:sqlite')
  // Settings are plain JSON Schema, because the type builder would cost more than the validator.
  expect(loaded.filter(url => url.includes('/typebox/build/type/'))).toEqual([])
})

test('a feature that is on loads its package', async () => {
  const policies = JSON.stringify([{ name: 'minute', per: 'key', requests: 1, windowSeconds: 60 }])
  const packages = packagesOf(await loadedBy({ POSTERN_LIMITS_POLICIES: policies }))
  expect(packages).toEqual([...ALWAYS, 'rate-limiter-flexible'].sort())
})

test('a command that calls the console loads no code of gateway or console but its schemas, and no database', async () => {
  const file = join(temporaryDirectory(), 'loaded.json')
  const env = { LOADED_FILE: file, POSTERN_CONSOLE_URL: 'http://127.0.0.1:1', POSTERN_ADMIN_TOKEN: 'a-token' }
  const { code, stderr } = await new PosternProcess(['keys', 'list'], env, LAUNCHER).exited
  expect([code, stderr]).toEqual([69, expect.stringContaining('cannot be reached')])
  const loaded = readLoaded(file)
  const planes = /\/src\/(?:console|gateway|upstream|keys|limits|redis)\//
  expect(loaded.filter(url => planes.test(url))).toEqual([
    expect.stringMatching(/\/console\/platform\/http\/fields\.ts$/),
  ])
  expect(loaded).not.toContain('node:sqlite')
  expect(packagesOf(loaded)).toEqual(['cli-progress', 'cli-table3', 'commander', 'typebox', 'yaml'])
})
