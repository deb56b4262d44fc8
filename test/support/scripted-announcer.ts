import type { Announcement, Announcer } from '../../src/console/announcing/announcer.ts'
import type { StoredKey } from '../../src/domain/key/key-record.ts'

/** An announcer that records its calls and fails on demand. */
export class ScriptedAnnouncer implements Announcer {
  readonly published: string[] = []
  readonly puts: StoredKey[] = []
  /** Null: there is no shared Redis to recognise. */
  mark: Announcer['mark'] = null
  refusesWrites = false
  /** Number of writes. */
  refused = 0
  refusesPublishing = false
  /** While this is set, calls stall, as with a frozen server. */
  stalled: Promise<void> | null = null
  #state: 'ready' | 'down' | 'failed' | 'off' = 'ready'
  #listeners: (() => void)[] = []
  readonly #silences: (() => void)[] = []

  start(): void {}
  async stop(): Promise<void> {}

  state(): 'ready' | 'down' | 'failed' | 'off' {
    return this.#state
  }

  set(state: 'ready' | 'down' | 'failed' | 'off'): void {
    this.#state = state
    if (state === 'ready') for (const listener of this.#listeners) listener()
  }

  /** While this is false, the server may have been replaced. */
  isConfirmed = true

  async confirm(): Promise<boolean> {
    return this.isConfirmed
  }

  onReady(listener: () => void): void {
    this.#listeners.push(listener)
  }

  onOtherSilent(listener: () => void): void {
    this.#silences.push(listener)
  }

  /** Another console has stopped. */
  otherIsSilent(): void {
    for (const listener of this.#silences) listener()
  }

  async put({ key, messages }: Announcement): Promise<void> {
    await this.stalled
    if (this.refusesWrites) {
      this.refused++
      throw new Error('READONLY')
    }
    this.puts.push(key)
    for (const message of messages) await this.publish(message)
  }

  async putAll(announcements: readonly Announcement[]): Promise<readonly PromiseSettledResult<void>[]> {
    return Promise.allSettled(announcements.map(announcement => this.put(announcement)))
  }

  async readCounters() {
    return 'off' as const
  }

  async publish(message: string): Promise<void> {
    await this.stalled
    if (this.refusesPublishing) throw new Error('NOPERM')
    this.published.push(message)
  }
}
