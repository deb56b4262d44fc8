import { hasKeyForm, hasKeyMac, type KeyFormat } from '../../src/domain/key/secret.ts'

/** All that a key which nobody has seen before is checked for, in the order in which it is. */
export function isWellFormedKey(key: string, format: KeyFormat): boolean {
  return hasKeyForm(key, format) && hasKeyMac(key, format)
}
