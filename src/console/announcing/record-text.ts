import type { KeyObject } from 'node:crypto'
import { encodeRecord } from '../../domain/wire.ts'
import type { StoredKey } from '../keys/rows/key-repository.ts'
import { signedOnce } from './signed-once.ts'

/** As `encodeRecord`, once for the response to a lookup and the Redis of each region. */
export const recordTextOf = signedOnce(({ record, digest }: StoredKey, recordKey: KeyObject) =>
  encodeRecord(record, digest, recordKey),
)
