import { hash } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type LoadedConfig, loadConfig } from '../../src/config/load-config.ts'
import type { Plane } from '../../src/config/rules.ts'
import type { Config } from '../../src/config/schema/schema.ts'
import { temporaryDirectory } from '../support/temporary-directory.ts'

export const SIGNING_SECRET = signingSecret(1)

/** The least that both planes need. */
export const ENOUGH: NodeJS.ProcessEnv = {
  POSTERN_UPSTREAM_URL: 'http://workspaces.internal:8080',
  POSTERN_REDIS_URL: 'redis://redis.internal:6379',
  POSTERN_KEYS_SIGNING_SECRETS: SIGNING_SECRET,
}

/** A secret that looks random, and is the same in each run. */
export function signingSecret(number: number): string {
  return hash('sha256', `a secret of the tests, number ${number}`, 'base64')
}

interface Sources {
  environment?: NodeJS.ProcessEnv
  flags?: Record<string, string>
  /** Text of a settings file. */
  file?: string
  planes?: readonly Plane[]
}

export function load({
  environment = {},
  flags = {},
  file,
  planes = ['gateway', 'console'],
}: Sources = {}): LoadedConfig {
  const directory = mkdtempSync(join(tmpdir(), 'postern-config-'))
  const configFile = join(directory, 'settings.yaml')
  if (file !== undefined) writeFileSync(configFile, file)
  try {
    return loadConfig({
      environment: { ...ENOUGH, ...environment },
      flags: new Map(Object.entries(flags)),
      configFile: file === undefined ? undefined : configFile,
      planes,
    })
  } finally {
    rmSync(directory, { recursive: true })
  }
}

export function configOf(sources?: Sources): Config {
  const loaded = load(sources)
  if (!loaded.ok) throw new Error(JSON.stringify(loaded.problems))
  return loaded.config
}

/** Each mistake as a person reads it. */
export function mistakesOf(sources?: Sources): string[] {
  const loaded = load(sources)
  return loaded.ok ? [] : loaded.problems.map(({ source, problem }) => `${source} ${problem}`)
}

/** A mistake without the place in a file where it stands. */
export function withoutPlace(mistake: string): string {
  return mistake.replace(/^\S*:\d+: /, '')
}

/** @returns the path of a file with this text, gone when the running test ends */
export function fileWith(text: string, name = 'value'): string {
  const path = join(temporaryDirectory(), name)
  writeFileSync(path, text)
  return path
}
