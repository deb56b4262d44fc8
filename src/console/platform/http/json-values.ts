const QUOTE = 0x22
const COMMA = 0x2c
const BRACKET = 0x5b
const BACKSLASH = 0x5c
const BRACE = 0x7b

/** Whether a JSON text holds more values than this. Checked before it is parsed: `{},` has three bytes, and its value many more. */
export function hasMoreValues(json: Uint8Array, most: number): boolean {
  let values = 1
  for (let at = 0; at < json.length; at++) {
    const byte = json[at]
    if (byte === QUOTE) at = endOfString(json, at)
    else if (byte === COMMA || byte === BRACKET || byte === BRACE) values++
    if (values > most) return true
  }
  return false
}

/** @param start of its opening quote. @returns the place of the closing one, or the end of a text without one */
function endOfString(json: Uint8Array, start: number): number {
  for (let at = start + 1; at < json.length; at++) {
    if (json[at] === QUOTE) return at
    if (json[at] === BACKSLASH) at++
  }
  return json.length
}
