/** @returns what the text says; undefined if it is no JSON */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

export function isJsonObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** @returns null if the text is no JSON object, or longer than `maxLength` characters */
export function parseJsonObject(
  text: string,
  maxLength = Number.POSITIVE_INFINITY,
): Record<string, unknown> | null {
  if (text.length > maxLength) return null
  const value = parseJson(text)
  return isJsonObject(value) ? value : null
}
