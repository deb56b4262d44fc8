import type { KeyObject } from 'node:crypto'
import { decodeRecord, MAX_RECORD_BYTES, redisKeyOf } from '../../../domain/wire.ts'
import { asError } from '../../../observability/trouble-log.ts'
import type { FailureReason, KeyTier, TierAnswer } from '../../key-store.ts'

/** As much of a Redis client as a lookup needs. */
export interface RecordReader {
  /** Never much more than a record may have; nothing where there is no entry. */
  read(key: string): Promise<Uint8Array>
}

/** Why Redis was not asked at all. */
export class NotAsked extends Error {}

/** The shared cache. Whoever can write there can grant nothing: a record without a good MAC is not there. */
export class RedisStore implements KeyTier {
  readonly name = 'redis'
  readonly #redis: RecordReader
  readonly #recordKeys: () => readonly KeyObject[] | null

  /** @param recordKeys keys of which one must have made a record's MAC; null only where keys are opaque and unsigned */
  constructor(redis: RecordReader, recordKeys: () => readonly KeyObject[] | null) {
    this.#redis = redis
    this.#recordKeys = recordKeys
  }

  async get(digest: string): Promise<TierAnswer> {
    try {
      const bytes = await this.#redis.read(redisKeyOf(digest))
      // An entry of no bytes is none: GETRANGE answers the same where there is none.
      return bytes.length === 0 ? { kind: 'miss' } : this.#decode(bytes, digest)
    } catch (thrown) {
      const error = asError(thrown)
      return { kind: 'failed', error, why: reasonOf(error) }
    }
  }

  #decode(bytes: Uint8Array, digest: string): TierAnswer {
    if (bytes.length > MAX_RECORD_BYTES) return { kind: 'miss', unreadable: true }
    const decoded = decodeRecord(Buffer.from(bytes).toString(), digest, this.#recordKeys())
    return decoded.ok ? { kind: 'found', grant: decoded.grant } : { kind: 'miss', unreadable: true }
  }
}

/** What Redis refuses, as while it loads its data, it refuses at once: it is there. */
function reasonOf(error: Error): FailureReason {
  if (error instanceof NotAsked) return 'withheld'
  return error.name === 'ReplyError' ? 'unusable' : 'unreachable'
}
