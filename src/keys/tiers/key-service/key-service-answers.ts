import { decodeRecord } from '../../../domain/wire.ts'
import type { TierAnswer } from '../../key-store.ts'
import type { KeyServiceReply } from './key-service-client.ts'

/** Answers of a server that does not have a call: some calls are optional for an own key service. */
const NOT_OFFERED = new Set([404, 405, 501])

export function isNotOffered({ status }: KeyServiceReply): boolean {
  return NOT_OFFERED.has(status)
}

/** Only `not_found` of the key service itself says that there is no such key. */
export function readSingle({ status, text }: KeyServiceReply, digest: string): TierAnswer {
  if (status === 404 && parseObject(text)?.['code'] === 'not_found') return { kind: 'absent' }
  return status === 200 ? readRecord(text, digest) : failed(`The key service answered ${status}`)
}

/**
 * Reads the answer to many lookups.
 * @returns the answer for each key; one that is missing or malformed fails alone
 */
export function readBatch({ status, text }: KeyServiceReply): (digest: string) => TierAnswer {
  if (status !== 200) return () => failed(`The key service answered ${status}`)
  const records = parseObject(text)?.['records']
  if (!isObject(records)) return () => failed('The key service’s answer to many lookups holds no records')
  return digest => {
    if (!Object.hasOwn(records, digest)) return failed('The key service left a key out of its answer')
    const record = records[digest]
    return record === null ? { kind: 'absent' } : readRecord(JSON.stringify(record), digest)
  }
}

/** It did answer: lookups of other keys need not fail. */
function failed(message: string): TierAnswer {
  return { kind: 'failed', error: new Error(message), why: 'unusable' }
}

function readRecord(text: string, digest: string): TierAnswer {
  const decoded = decodeRecord(text, digest, null)
  return decoded.ok
    ? { kind: 'found', grant: decoded.grant }
    : failed(`The key service’s record is ${decoded.why}`)
}

function parseObject(text: string): Record<string, unknown> | null {
  try {
    const json: unknown = JSON.parse(text)
    return isObject(json) ? json : null
  } catch {
    return null // The answer of another server, such as a proxy's error page.
  }
}

function isObject(json: unknown): json is Record<string, unknown> {
  return typeof json === 'object' && json !== null && !Array.isArray(json)
}
