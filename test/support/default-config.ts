import { loadConfig } from '../../src/config/load-config.ts'
import type { Config } from '../../src/config/schema.ts'

/** What applies where an operator sets nothing: a new setting needs no line in a test that does not concern it. */
export function defaultConfig(): Config {
  const loaded = loadConfig({ environment: {}, planes: [] })
  if (!loaded.ok) throw new Error(JSON.stringify(loaded.problems))
  return loaded.config
}
