import type { KeyObject } from 'node:crypto'
import { decodeRecord, MAX_RECORD_BYTES, redisKeyOf } from '../../../domain/wire.ts'
import { asError } from '../../../observability/failure-log.ts'
import { isReplyError } from '../../../redis/reply-error.ts'
import type { FailureReason, KeyTier, TierResult } from '../../key-store.ts'

/** The part of a Redis client that a lookup needs. */
export interface RecordReader {
  /** At most one byte more than a record may have; empty if there is no entry. */
  read(key: string): Promise<Uint8Array>
}

/** The error of a lookup for which no command was sent. */
export class RedisSkipped extends Error {}

/** Records in Redis. Write access to Redis makes no key valid: a record without a valid MAC counts as a miss. */
export class RedisStore implements KeyTier {
  readonly name = 'redis'
  readonly #redis: RecordReader
  readonly #recordKeys: () => readonly KeyObject[] | null

  /** @param recordKeys one of them must have made a record's MAC; null only if keys are opaque and records unsigned */
  constructor(redis: RecordReader, recordKeys: () => readonly KeyObject[] | null) {
    this.#redis = redis
    this.#recordKeys = recordKeys
  }

  async get(digest: string): Promise<TierResult> {
    try {
      const bytes = await this.#redis.read(redisKeyOf(digest))
      // GETRANGE returns an empty string for a missing key.
      return bytes.length === 0 ? { kind: 'miss' } : this.#decode(bytes, digest)
    } catch (thrown) {
      const error = asError(thrown)
      return { kind: 'failed', error, why: failureReasonOf(error) }
    }
  }

  #decode(bytes: Uint8Array, digest: string): TierResult {
    if (bytes.length > MAX_RECORD_BYTES) return { kind: 'miss', unreadable: true }
    const decoded = decodeRecord(Buffer.from(bytes).toString(), digest, this.#recordKeys())
    return decoded.ok ? { kind: 'found', grant: decoded.grant } : { kind: 'miss', unreadable: true }
  }
}

/** A Redis that replies with an error, such as while it loads its data, is reachable. */
function failureReasonOf(error: Error): FailureReason {
  if (error instanceof RedisSkipped) return 'skipped'
  return isReplyError(error) ? 'unusable' : 'unreachable'
}
