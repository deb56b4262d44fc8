import { loadConfig } from '../../src/config/load-config.ts'
import type { Config } from '../../src/config/schema/schema.ts'

/** The default configuration, so that a new setting needs no change in unrelated tests. */
export function defaultConfig(): Config {
  const loaded = loadConfig({ environment: {}, planes: [] })
  if (!loaded.ok) throw new Error(JSON.stringify(loaded.problems))
  return loaded.config
}
