import { createPublicKey, type KeyObject } from 'node:crypto'
import { SettingError } from './errors.ts'
import { isJsonObject, parseJson } from './form/json.ts'

const MAX_KEYS = 100
export const KEY_IDENTIFIER = /^[A-Za-z0-9._-]{1,128}$/

/** A key of GitHub that signs reports. */
export interface ReportKey {
  readonly key: KeyObject
  /** GitHub signs with it now. Until it is withdrawn, one that is not still verifies what was signed before. */
  readonly isCurrent: boolean
}

/** By identifier. */
export type ReportKeys = ReadonlyMap<string, ReportKey>

/**
 * @param setting the setting that names the file, for the message
 * @throws SettingError if the text of the file holds no key
 */
export function requireReportKeys(text: string, setting: string): ReportKeys {
  try {
    return parsePublicKeys(text)
  } catch (error) {
    throw new SettingError(`${setting}: ${error instanceof Error ? error.message : String(error)}`)
  }
}

/**
 * Reads the list that GitHub publishes: `{"public_keys":[{"key_identifier","key","is_current"}]}`.
 * @throws if it is malformed or holds no usable key: a broken list must not replace a good one
 */
export function parsePublicKeys(text: string): ReportKeys {
  const list = listIn(text)
  const keys = new Map<string, ReportKey>()
  for (const entry of list.slice(0, MAX_KEYS)) {
    const { key_identifier: identifier, key: pem, is_current: isCurrent } = entry
    if (typeof identifier !== 'string' || !KEY_IDENTIFIER.test(identifier) || typeof pem !== 'string')
      continue
    const key = importKey(pem)
    // A key of another kind is for another protocol.
    if (key !== null) keys.set(identifier, { key, isCurrent: isCurrent === true })
  }
  if (keys.size === 0) throw new Error('the list of public keys holds no ECDSA P-256 key')
  return keys
}

function listIn(text: string): Record<string, unknown>[] {
  const parsed = parseJson(text)
  if (parsed === undefined) throw new Error('the list of public keys is not JSON')
  const list = isJsonObject(parsed) ? parsed['public_keys'] : undefined
  if (!Array.isArray(list)) throw new Error('the list of public keys has no public_keys')
  return list.filter(isJsonObject)
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
