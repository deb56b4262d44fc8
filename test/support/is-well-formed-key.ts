import { hasKeyForm, hasKeyMac, type KeyFormat } from '../../src/domain/key/secret.ts'

/** Every check that a key passes before its first lookup, in order. */
export function isWellFormedKey(key: string, format: KeyFormat): boolean {
  return hasKeyForm(key, format) && hasKeyMac(key, format)
}
