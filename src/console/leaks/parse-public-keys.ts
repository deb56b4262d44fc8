import { createPublicKey, type KeyObject } from 'node:crypto'

const MAX_KEYS = 100
const IDENTIFIER = /^[A-Za-z0-9._-]{1,128}$/

/** A key of GitHub that signs reports. */
export interface ReportKey {
  readonly key: KeyObject
  /** GitHub signs with it now. Until it is withdrawn, one that is not still verifies what was signed before. */
  readonly isCurrent: boolean
}

/** By identifier. */
export type ReportKeys = ReadonlyMap<string, ReportKey>

/**
 * Reads the list that GitHub publishes: `{"public_keys":[{"key_identifier","key","is_current"}]}`.
 * @throws if it is malformed or holds no usable key: a broken list must not replace a good one
 */
export function parsePublicKeys(text: string): ReportKeys {
  const list = listIn(text)
  const keys = new Map<string, ReportKey>()
  for (const entry of list.slice(0, MAX_KEYS)) {
    const { key_identifier: identifier, key: pem, is_current: isCurrent } = entry
    if (typeof identifier !== 'string' || !IDENTIFIER.test(identifier) || typeof pem !== 'string') continue
    const key = importKey(pem)
    // A key of another kind is for another protocol.
    if (key !== null) keys.set(identifier, { key, isCurrent: isCurrent === true })
  }
  if (keys.size === 0) throw new Error('the list of public keys holds no ECDSA P-256 key')
  return keys
}

function listIn(text: string): Record<string, unknown>[] {
  let parsed: unknown
  try {
    parsed = JSON.parse(text)
  } catch {
    throw new Error('the list of public keys is not JSON')
  }
  const list = isObject(parsed) ? parsed['public_keys'] : undefined
  if (!Array.isArray(list)) throw new Error('the list of public keys has no public_keys')
  return list.filter(isObject)
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function importKey(pem: string): KeyObject | null {
  try {
    const key = createPublicKey(pem)
    const isP256 = key.asymmetricKeyType === 'ec' && key.asymmetricKeyDetails?.namedCurve === 'prime256v1'
    return isP256 ? key : null
  } catch {
    return null
  }
}
