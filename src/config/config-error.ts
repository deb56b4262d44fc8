import type { LoadedConfig } from './load.ts'
import type { Config } from './schema.ts'

/** Settings that cannot be started with; its message names every mistake, a line each. */
export class ConfigError extends Error {}

export function configOrThrow(loaded: LoadedConfig): Config {
  if (loaded.ok) return loaded.config
  const lines = loaded.mistakes.map(({ spelling, problem }) => `  ${spelling}: ${problem}\n`)
  const count = lines.length === 1 ? 'One setting is' : `${lines.length} settings are`
  throw new ConfigError(`${count} wrong:\n${lines.join('')}`)
}
