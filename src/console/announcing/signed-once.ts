/**
 * Encodes each value once for all regions and lookups, since most of that time is the signature.
 * @param encode signs with the key
 * @returns as `encode`; a value with another identity or another key is encoded again
 */
export function signedOnce<Value extends WeakKey, Key>(
  encode: (value: Value, key: Key) => string,
): (value: Value, key: Key) => string {
  const encoded = new WeakMap<Value, { readonly text: string; readonly key: Key }>()
  return (value, key) => {
    const known = encoded.get(value)
    if (known?.key === key) return known.text
    const text = encode(value, key)
    encoded.set(value, { text, key })
    return text
  }
}
