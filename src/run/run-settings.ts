import { configOrThrow, type LoadedConfig } from '../config/load-config.ts'
import type { Config } from '../config/schema/schema.ts'
import type { Fingerprints } from './file-watch.ts'

/** The settings that a process starts with, and the function that reads them again. */
export interface RunSettings {
  readonly config: Config
  /** The files that the settings were read from. */
  readonly files: Fingerprints
  readonly load: () => LoadedConfig
}

/** @throws ConfigError, which names every problem */
export function loadRunSettings(load: () => LoadedConfig): RunSettings {
  const loaded = load()
  return { config: configOrThrow(loaded), files: loaded.ok ? loaded.files : new Map(), load }
}
