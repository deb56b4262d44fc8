import type { StoredKey } from '../../domain/key/key-record.ts'

/** A record to write, and what to publish once it is written. */
export interface Announcement {
  readonly key: StoredKey
  /** Encoded changes of the key. */
  readonly messages: readonly string[]
}

/** Publishes keys to gateways: through Redis, or within this process. */
export interface Announcer {
  start(): void
  stop(): Promise<void>
  /** `failed`: Redis answers with errors. `off`: none is configured; nothing is ever announced. */
  state(): 'ready' | 'down' | 'failed' | 'off'
  /** Whether what was announced before this call has reached the server that all others use, by what is known after it. */
  confirm(): Promise<boolean>
  /**
   * Called whenever announcing becomes possible: on the first connection, and again after each reconnection or
   * failover, since the new server may lack the latest writes.
   */
  onReady(listener: () => void): void
  /**
   * Writes each record for gateways to read, unless Redis holds a newer version, and then publishes its messages. Never rejects.
   * @returns the result of each, in their order
   */
  putAll(announcements: readonly Announcement[]): Promise<readonly PromiseSettledResult<void>[]>
  /** @param message an encoded heartbeat */
  publish(message: string): Promise<void>
}

/**
 * For console and gateway in one process, such as the demo: there is no shared cache to write.
 * @param deliver receives the messages of the channel
 */
export function createInProcessAnnouncer(deliver: (message: string) => void): Announcer {
  return {
    start: () => {},
    stop: async () => {},
    state: () => 'ready',
    confirm: async () => true,
    onReady: () => {},
    putAll: announcements =>
      Promise.allSettled(announcements.map(async ({ messages }) => messages.forEach(deliver))),
    publish: async message => deliver(message),
  }
}

/**
 * For a console without Redis. Changes stay in the outbox: a Redis configured later may hold older records, which
 * they must still reach.
 */
export function createDisabledAnnouncer(): Announcer {
  return { ...createInProcessAnnouncer(() => {}), state: () => 'off' }
}
