import type { KeyObject } from 'node:crypto'
import { decodeRecord, redisKeyOf } from '../domain/wire.ts'
import { asError } from '../observability/trouble-log.ts'
import type { FailureReason, KeyTier, TierAnswer } from './key-store.ts'

/** As much of a Redis client as a look-up needs. */
export interface RedisGet {
  get(key: string): Promise<string | null>
}

/** Why Redis was not asked at all. */
export class NotAsked extends Error {}

/** The shared cache. Whoever can write there can grant nothing: a record without a good MAC is not there. */
export class RedisStore implements KeyTier {
  readonly name = 'redis'
  readonly #redis: RedisGet
  readonly #recordKeys: () => readonly KeyObject[] | null

  /** @param recordKeys keys of which one must have made a record's MAC; null only where keys are opaque and unsigned */
  constructor(redis: RedisGet, recordKeys: () => readonly KeyObject[] | null) {
    this.#redis = redis
    this.#recordKeys = recordKeys
  }

  async get(digest: string): Promise<TierAnswer> {
    try {
      const text = await this.#redis.get(redisKeyOf(digest))
      return text === null ? { kind: 'miss' } : this.#read(text, digest)
    } catch (thrown) {
      const error = asError(thrown)
      return { kind: 'failed', error, why: reasonOf(error) }
    }
  }

  #read(text: string, digest: string): TierAnswer {
    const decoded = decodeRecord(text, digest, this.#recordKeys())
    return decoded.ok ? { kind: 'found', grant: decoded.grant } : { kind: 'miss', unreadable: true }
  }
}

/** What Redis refuses, as while it loads its data, it refuses at once: it is there. */
function reasonOf(error: Error): FailureReason {
  if (error instanceof NotAsked) return 'withheld'
  return error.name === 'ReplyError' ? 'unusable' : 'unreachable'
}
