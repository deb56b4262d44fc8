import { setTimeout as sleep } from 'node:timers/promises'
import type { Logger } from 'pino'
import { configOrThrow, type LoadedConfig } from '../config/load-config.ts'
import { type ReloadedSettings, reloadSettings } from '../config/reload-settings.ts'
import type { OnReload, PrepareReload } from '../config/reloadable.ts'
import type { Config } from '../config/schema/schema.ts'
import { type Fingerprints, findChangedFiles } from '../config/setting-files.ts'
import type { Clock } from '../domain/clock.ts'
import type { Metrics } from '../observability/metrics/metrics.ts'

/** The settings that a process starts with, and the function that reads them again. */
export interface RunSettings {
  readonly config: Config
  /** The files that the settings were read from. */
  readonly files: Fingerprints
  /** Reads all settings again. */
  readonly load: () => LoadedConfig
}

/** @throws ConfigError, which names every problem */
export function loadRunSettings(load: () => LoadedConfig): RunSettings {
  const loaded = load()
  return { config: configOrThrow(loaded), files: loaded.ok ? loaded.files : new Map(), load }
}

interface ReloaderParts extends RunSettings {
  readonly logger: Logger
  readonly metrics: Pick<Metrics, 'configReloadSuccess' | 'configReloadTimestamp'>
  readonly clock: Clock
}

/**
 * Reloads settings while the process runs. Either every part applies all changes, or none does: if the new settings cannot
 * be read or used, the last good settings stay in use, and a log line and a metric report it.
 */
export class Reloader {
  readonly #parts: ReloaderParts
  readonly #prepares: PrepareReload<Config>[] = []
  #config: Config
  #hasReloaded = false
  #files: Fingerprints

  constructor(parts: ReloaderParts) {
    this.#parts = parts
    this.#config = parts.config
    this.#files = parts.files
    this.#report(true)
  }

  /** A part that registers late, while the process is being built, gets the current settings at once. */
  readonly onReload: OnReload<Config> = prepare => {
    this.#prepares.push(prepare)
    if (this.#hasReloaded) prepare(this.#config)()
  }

  /** Checks the files at this interval; 0 disables the check. */
  start(intervalMs: number): void {
    // reload() reports its own failures.
    if (intervalMs > 0) void repeat(intervalMs, () => this.checkFiles())
  }

  /** Reloads if the content of a file has changed. */
  async checkFiles(): Promise<void> {
    const changed = await findChangedFiles(this.#files)
    if (changed.size === 0) return
    // Recorded before the reload, so that a failure is reported once and not at each check.
    this.#files = new Map([...this.#files, ...changed])
    this.reload({ files: [...changed.keys()] })
  }

  /** @param cause fields of the log line: the signal or the changed files */
  reload(cause: Readonly<Record<string, unknown>>): void {
    const { logger } = this.#parts
    const before = logger.child({})
    // Until it has a level of its own, a child follows that of its logger.
    before.level = logger.level
    try {
      const { changed, needRestart } = this.#apply()
      // A reload that raises the level still shows that it was carried out.
      const shown = before.levelVal < logger.levelVal ? before : logger
      shown.info({ ...cause, changed }, 'settings reloaded')
      if (needRestart.length > 0)
        shown.warn({ settings: needRestart }, 'changed settings take effect after a restart')
      this.#report(true)
    } catch (error) {
      const problem = error instanceof Error ? error.message : String(error)
      logger.error({ ...cause, problem }, 'settings reload failed, keeping the last good settings')
      this.#report(false)
    }
  }

  #apply(): ReloadedSettings {
    const loaded = this.#parts.load()
    if (!loaded.ok) {
      throw new Error(loaded.problems.map(({ source, problem }) => `${source}: ${problem}`).join('; '))
    }
    const reloaded = reloadSettings(this.#config, loaded.config)
    // Preparing may throw, but has no effect yet.
    const commits = this.#prepares.map(prepare => prepare(reloaded.config))
    for (const commit of commits) commit()
    this.#config = reloaded.config
    this.#hasReloaded = true
    this.#files = loaded.files
    return reloaded
  }

  #report(isSuccess: boolean): void {
    const { metrics, clock } = this.#parts
    metrics.configReloadSuccess.set(isSuccess ? 1 : 0)
    metrics.configReloadTimestamp.set(clock.wallMs() / 1000)
  }
}

/** Runs `action` at this interval, one run at a time, without keeping the process alive. */
async function repeat(intervalMs: number, action: () => Promise<void>): Promise<never> {
  for (;;) {
    await sleep(intervalMs, undefined, { ref: false })
    await action()
  }
}
