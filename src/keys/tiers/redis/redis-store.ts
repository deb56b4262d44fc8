import type { KeyObject } from 'node:crypto'
import { decodeRecord, MAX_RECORD_BYTES, redisKeyOf } from '../../../domain/wire.ts'
import { asError } from '../../../observability/failure-log.ts'
import { isReplyError } from '../../../redis/reply-error.ts'
import type { FailureReason, KeyTier, TierAnswer } from '../../key-store.ts'

/** As much of a Redis client as a lookup needs. */
export interface RecordReader {
  /** At most one byte more than a record may have; empty if there is no entry. */
  read(key: string): Promise<Uint8Array>
}

/** No command was sent. */
export class RedisSkipped extends Error {}

/** The shared cache. Write access to Redis grants nothing: a record without a good MAC counts as a miss. */
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
      // GETRANGE answers nothing for a key that is not there.
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

/** A Redis that refuses, such as while it loads its data, is reachable. */
function reasonOf(error: Error): FailureReason {
  if (error instanceof RedisSkipped) return 'skipped'
  return isReplyError(error) ? 'unusable' : 'unreachable'
}
