import { loadConfig } from '../../src/config/load-config.ts'
import type { Config } from '../../src/config/schema/schema.ts'

let loaded: Config | undefined

/** The default configuration, so that a new setting needs no change in unrelated tests. Read once: each console of a test has a copy. */
export function defaultConfig(): Config {
  loaded ??= load()
  return structuredClone(loaded)
}

function load(): Config {
  const outcome = loadConfig({ environment: {}, planes: [] })
  if (!outcome.ok) throw new Error(JSON.stringify(outcome.problems))
  return outcome.config
}
