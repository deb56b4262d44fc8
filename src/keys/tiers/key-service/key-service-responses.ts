import { decodeRecord } from '../../../domain/wire.ts'
import type { TierResult } from '../../key-store.ts'
import type { KeyServiceResponse } from './key-service-client.ts'

/** Statuses of a key service that does not offer a call: some calls are optional for key services of other makers. */
const NOT_OFFERED = new Set([404, 405, 501])

export function isNotOffered({ status }: KeyServiceResponse): boolean {
  return NOT_OFFERED.has(status)
}

/** Reads the response to a single lookup. Only the code `not_found` means that there is no such key. */
export function readSingle({ status, text }: KeyServiceResponse, digest: string): TierResult {
  if (status === 404 && parseObject(text)?.['code'] === 'not_found') return { kind: 'absent' }
  return status === 200 ? readRecord(text, digest) : failed(`The key service responded with status ${status}`)
}

/**
 * Reads the response to a batch of lookups.
 * @returns a function from digest to result; a missing or malformed record fails only its own lookup
 */
export function readBatch({ status, text }: KeyServiceResponse): (digest: string) => TierResult {
  if (status !== 200) return () => failed(`The key service responded with status ${status}`)
  const records = parseObject(text)?.['records']
  if (!isObject(records))
    return () => failed('The response of the key service to a batch contains no records')
  return digest => {
    if (!Object.hasOwn(records, digest))
      return failed('The response of the key service to a batch omits this key')
    const record = records[digest]
    return record === null ? { kind: 'absent' } : readRecord(JSON.stringify(record), digest)
  }
}

/** The key service did respond, so lookups of other keys need not fail. */
function failed(message: string): TierResult {
  return { kind: 'failed', error: new Error(message), why: 'unusable' }
}

function readRecord(text: string, digest: string): TierResult {
  const decoded = decodeRecord(text, digest, null)
  return decoded.ok
    ? { kind: 'found', grant: decoded.grant }
    : failed(`The key service returned an invalid record: ${decoded.why}`)
}

function parseObject(text: string): Record<string, unknown> | null {
  try {
    const json: unknown = JSON.parse(text)
    return isObject(json) ? json : null
  } catch {
    return null // The response of another server, such as a proxy's error page.
  }
}

function isObject(json: unknown): json is Record<string, unknown> {
  return typeof json === 'object' && json !== null && !Array.isArray(json)
}
