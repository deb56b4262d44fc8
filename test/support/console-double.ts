import { type Clock, systemClock } from '../../src/domain/clock.ts'
import type { KeyRecord } from '../../src/domain/key/key-record.ts'
import { CHANGES_CHANNEL, encodeRecord, recordKeyName } from '../../src/domain/wire.ts'
import { RECORD_KEY } from './key-records.ts'
import { changeMessage, heartbeatMessage } from './messages.ts'
import type { RedisServer } from './redis-server.ts'

const HEARTBEAT_EVERY_MS = 50

/** Writes to Redis what a console writes: records, announcements, heartbeats. */
export class ConsoleDouble {
  readonly #server: RedisServer
  readonly #clock: Clock
  #timer: NodeJS.Timeout | undefined
  #sentMs = 0

  constructor(server: RedisServer, clock: Clock = systemClock) {
    this.#server = server
    this.#clock = clock
  }

  startHeartbeats(): void {
    this.#timer ??= setInterval(() => void this.#publish(this.#heartbeat()), HEARTBEAT_EVERY_MS)
  }

  stopHeartbeats(): void {
    clearInterval(this.#timer)
    this.#timer = undefined
  }

  async write(digest: string, record: KeyRecord): Promise<void> {
    await this.#server.admin.set(recordKeyName(digest), encodeRecord(record, digest, RECORD_KEY))
  }

  /** @returns the number of subscribers that received it */
  async announce(digest: string, version: number): Promise<number> {
    return await this.#publish(changeMessage({ digest, version, atMs: this.#clock.wallMs() }))
  }

  async say(text: string): Promise<void> {
    await this.#publish(text)
  }

  #heartbeat(): string {
    const now = this.#clock.monotonicMs()
    // If the test holds the clock still, a heartbeat must still differ from the one before.
    this.#sentMs = Math.max(this.#sentMs + 1, Math.floor(now))
    return heartbeatMessage({ sender: 'double', monotonicMs: this.#sentMs, atMs: this.#clock.wallMs() })
  }

  async #publish(text: string): Promise<number> {
    return await this.#server.admin.publish(CHANGES_CHANNEL, text).catch(() => 0)
  }
}
