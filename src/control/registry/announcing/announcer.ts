import type { StoredKey } from '../database/key-repository.ts'

/** Where gateways learn of keys: Redis, or the gateway in this same process. */
export interface Announcer {
  start(): void
  stop(): Promise<void>
  /** `off`: there is nobody to tell; nothing will ever be announced. */
  state(): 'ready' | 'down' | 'off'
  /**
   * Called each time that announcing has become possible, again or for the first time. Also after each failover: a
   * server that takes another's place may have lost what that one was told last.
   */
  onReady(listener: () => void): void
  /** Makes the record readable for gateways. A newer one that is there stays. */
  put(key: StoredKey): Promise<void>
  /** The same for many. @returns what became of each, in their order; it never fails as a whole */
  putAll(keys: readonly StoredKey[]): Promise<readonly PromiseSettledResult<void>[]>
  /** @param message a change or a beat, as `wire.ts` encodes it */
  publish(message: string): Promise<void>
}

/**
 * For one process that holds console and gateway, such as the demo: there is no cache between them to write.
 * @param hear takes what would come over the channel
 */
export function createInProcessAnnouncer(hear: (message: string) => void): Announcer {
  return {
    start: () => {},
    stop: async () => {},
    state: () => 'ready',
    onReady: () => {},
    put: async () => {},
    putAll: async keys => keys.map(() => ({ status: 'fulfilled', value: undefined })),
    publish: async message => hear(message),
  }
}

/**
 * For a console without Redis. Changes stay noted in the database: should it be given a Redis later, that may hold
 * records from before, which the changes have to reach.
 */
export function createSilentAnnouncer(): Announcer {
  return { ...createInProcessAnnouncer(() => {}), state: () => 'off' }
}
