import { type Clock, systemClock } from '../../src/domain/clock.ts'
import type { KeyRecord } from '../../src/domain/key/key-record.ts'
import { CHANGES_CHANNEL, encodeRecord, redisKeyOf } from '../../src/domain/wire.ts'
import { RECORD_KEY } from './key-records.ts'
import { changeMessage, heartbeatMessage } from './messages.ts'
import type { RedisServer } from './redis-server.ts'

const BEAT_EVERY_MS = 50

/** What a console does in Redis: records, announcements, beats. */
export class ConsoleDouble {
  readonly #server: RedisServer
  readonly #clock: Clock
  #beats: NodeJS.Timeout | undefined
  #sentMs = 0

  constructor(server: RedisServer, clock: Clock = systemClock) {
    this.#server = server
    this.#clock = clock
  }

  startBeating(): void {
    this.#beats ??= setInterval(() => void this.#publish(this.#beat()), BEAT_EVERY_MS)
  }

  stopBeating(): void {
    clearInterval(this.#beats)
    this.#beats = undefined
  }

  async write(digest: string, record: KeyRecord): Promise<void> {
    await this.#server.admin.set(redisKeyOf(digest), encodeRecord(record, digest, RECORD_KEY))
  }

  /** @returns how many heard it */
  async announce(digest: string, version: number): Promise<number> {
    return await this.#publish(changeMessage({ digest, version, atMs: this.#clock.wallMs() }))
  }

  async say(text: string): Promise<void> {
    await this.#publish(text)
  }

  #beat(): string {
    const now = this.#clock.monotonicMs()
    // Where a test holds its clock, a heartbeat is still no copy of the last one.
    this.#sentMs = Math.max(this.#sentMs + 1, Math.floor(now))
    return heartbeatMessage({ sender: 'double', monotonicMs: this.#sentMs, atMs: this.#clock.wallMs() })
  }

  async #publish(text: string): Promise<number> {
    return await this.#server.admin.publish(CHANGES_CHANNEL, text).catch(() => 0)
  }
}
