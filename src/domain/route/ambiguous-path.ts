/** Backslash, `;`, `#`, control characters, empty segments (also from a trailing slash). */
const AMBIGUOUS = /[\\;#\u0000-\u001f\u007f]|\/\/|.\/$/
/** Characters that must not be percent-encoded: once decoded, they split or end a segment. */
const SEPARATOR = /[/\\\u0000-\u001f\u007f]/
const DOT_SEGMENT = /\/\.{1,2}(?:\/|$)/

/**
 * Whether a server on the way might read the path as another path: encoded slash, backslash, dot segments in any
 * encoding, empty segments, `;`, `#`, control characters. Finds them encoded any number of times.
 */
export function isAmbiguousPath(path: string): boolean {
  if (AMBIGUOUS.test(path) || DOT_SEGMENT.test(path)) return true
  if (!path.includes('%')) return false
  const decoded = decodeFully(path)
  return decoded === null || DOT_SEGMENT.test(decoded)
}

/**
 * Decodes every percent escape, nested ones included, in one pass: an escape is complete with its last digit.
 * @returns null if an escape encodes a separator
 */
function decodeFully(path: string): string | null {
  const decoded: string[] = []
  for (const character of path) {
    decoded.push(character)
    while (isEscape(decoded)) {
      const [, high = '', low = ''] = decoded.splice(-3)
      const escaped = String.fromCharCode(Number.parseInt(high + low, 16))
      if (SEPARATOR.test(escaped)) return null
      decoded.push(escaped)
    }
  }
  return decoded.join('')
}

function isEscape(text: readonly string[]): boolean {
  return text.at(-3) === '%' && isHexDigit(text.at(-2)) && isHexDigit(text.at(-1))
}

function isHexDigit(character: string | undefined): boolean {
  return character !== undefined && /^[0-9a-f]$/i.test(character)
}
