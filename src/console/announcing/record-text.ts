import type { KeyObject } from 'node:crypto'
import type { StoredKey } from '../../domain/key/key-record.ts'
import { encodeRecord } from '../../domain/wire.ts'
import { signedOnce } from './signed-once.ts'

/** As `encodeRecord`, once for the response to a lookup and the Redis of each region. */
export const recordTextOf = signedOnce(({ record, digest }: StoredKey, recordKey: KeyObject) =>
  encodeRecord(record, digest, recordKey),
)
