/**
 * The parts of three characters that a text consists of, of ASCII characters alone: SQLite's index and `toLowerCase` fold
 * those alike.
 */
export function asciiTrigrams(text: string): string[] {
  const characters = [...text.toLowerCase()]
  const trigrams = characters.slice(2).map((_, at) => characters.slice(at, at + 3).join(''))
  return [...new Set(trigrams)].filter(trigram => /^[\x20-\x7e]{3}$/.test(trigram))
}
