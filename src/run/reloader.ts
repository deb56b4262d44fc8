import type { Logger } from 'pino'
import { takeOver } from '../config/live-settings.ts'
import type { LoadedConfig } from '../config/load.ts'
import type { Follow, Prepare } from '../config/reloadable.ts'
import type { Config } from '../config/schema.ts'
import type { Clock } from '../domain/clock.ts'
import type { Metrics } from '../observability/metrics.ts'
import { differing, type Fingerprints, repeatedly } from './file-watch.ts'

export interface ReloaderParts {
  readonly config: Config
  /** What stood behind these settings when they were read. */
  readonly files: Fingerprints
  /** Reads all settings again. */
  readonly load: () => LoadedConfig
  readonly logger: Logger
  readonly metrics: Pick<Metrics, 'configReloadSuccess' | 'configReloadTimestamp'>
  readonly clock: Clock
}

/**
 * Settings that change while the process runs: all that changed is taken over by everybody at once, or nothing by nobody.
 * What cannot be read or used is told of, and the last good settings stay.
 */
export class Reloader {
  readonly #parts: ReloaderParts
  readonly #followers: Prepare<Config>[] = []
  #config: Config
  #changed = false
  #files: Fingerprints

  constructor(parts: ReloaderParts) {
    this.#parts = parts
    this.#config = parts.config
    this.#files = parts.files
    this.#tell(true)
  }

  /** Who joins late, while the process is still being built, catches up. */
  readonly follow: Follow<Config> = prepare => {
    this.#followers.push(prepare)
    if (this.#changed) prepare(this.#config)()
  }

  /** Looks at the files every so often; 0 is never. */
  start(everyMs: number): void {
    // Whatever fails in it is told of there.
    if (everyMs > 0) void repeatedly(everyMs, () => this.look())
  }

  /** Reads all again where a file holds something else than it did. */
  async look(): Promise<void> {
    const changed = await differing(this.#files)
    if (changed.size === 0) return
    // Also where they are of no use: that is told once, and not with each look.
    this.#files = new Map([...this.#files, ...changed])
    this.reload({ files: [...changed.keys()] })
  }

  /** @param why for the log */
  reload(why: Readonly<Record<string, unknown>>): void {
    const { logger } = this.#parts
    try {
      const { changed, held } = this.#takeOver()
      logger.info({ ...why, changed }, 'settings read again')
      if (held.length > 0) logger.warn({ settings: held }, 'these settings changed, and wait for a restart')
      this.#tell(true)
    } catch (error) {
      const problem = error instanceof Error ? error.message : String(error)
      logger.error({ ...why, problem }, 'settings could not be read again: the last good ones stay in use')
      this.#tell(false)
    }
  }

  #takeOver(): { changed: readonly string[]; held: readonly string[] } {
    const loaded = this.#parts.load()
    if (!loaded.ok) {
      throw new Error(loaded.mistakes.map(({ spelling, problem }) => `${spelling}: ${problem}`).join('; '))
    }
    const { config, changed, held } = takeOver(this.#config, loaded.config)
    const commits = this.#followers.map(prepare => prepare(config))
    for (const commit of commits) commit()
    this.#config = config
    this.#changed = true
    this.#files = loaded.files
    return { changed, held }
  }

  #tell(success: boolean): void {
    const { metrics, clock } = this.#parts
    metrics.configReloadSuccess.set(success ? 1 : 0)
    metrics.configReloadTimestamp.set(clock.wallMs() / 1000)
  }
}
