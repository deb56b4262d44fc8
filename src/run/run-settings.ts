import { configOrThrow } from '../config/config-error.ts'
import type { LoadedConfig } from '../config/load.ts'
import type { Config } from '../config/schema.ts'
import type { Fingerprints } from './file-watch.ts'

/** The settings that a process starts with, and how it reads them again. */
export interface RunSettings {
  readonly config: Config
  /** The files behind them. */
  readonly files: Fingerprints
  readonly load: () => LoadedConfig
}

/** @throws ConfigError, which names every mistake */
export function settingsToRun(load: () => LoadedConfig): RunSettings {
  const loaded = load()
  return { config: configOrThrow(loaded), files: loaded.ok ? loaded.files : new Map(), load }
}
