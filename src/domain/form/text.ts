/**
 * A key, token, id or hint as a person pastes it, without what copying adds: invisible characters and line ends anywhere,
 * blanks, quotes and the comma of JSON around it, and `Authorization: Bearer` in front. Requests of programs are not read
 * this way: there each of these is a mistake.
 *
 * The console's script has the same function for the browser; a test compares them.
 */
export function plainPasted(text: string): string {
  const edges = '"\'`´“”„‟‘’‚‛«»‹›″′,;'
  const isEdge = (character: string) => character.trim() === '' || edges.includes(character)
  const withoutEdges = (from: string) => {
    let [start, end] = [0, from.length]
    while (start < end && isEdge(from.charAt(start))) start++
    while (end > start && isEdge(from.charAt(end - 1))) end--
    return from.slice(start, end)
  }
  const visible = withoutEdges(text.replace(/\p{Cf}/gu, ''))
  const value = visible.replace(/^(?:authorization["'`]?\s*:\s*["'`]?)?bearer\s+/i, '')
  return withoutEdges(value.replace(/[\p{Cc}\p{Zl}\p{Zp}]/gu, ''))
}

/**
 * The same for a search, which may also be for a part of a name: only a text that an id, a hint or a key could be is
 * changed. What is left of another is a part of it, so that it finds no less.
 */
export function plainSearch(text: string): string {
  const plain = plainPasted(text)
  return /^[\w.~+/=…-]+$/.test(plain) ? plain : text
}

/**
 * Characters that show nothing by themselves: controls, spaces, what Unicode lets a renderer leave out (zero-width and
 * direction characters, Hangul fillers, variation selectors, tags), marks without a base, and blanks that count as
 * letters or symbols.
 */
const NOT_VISIBLE =
  /[\p{Cc}\p{Cf}\p{Cs}\p{Z}\p{M}\p{Default_Ignorable_Code_Point}\u2800\u{1d159}\u{13441}\u{13442}]/gu

/** Whether a reader sees anything of the text. */
export function hasVisible(text: string): boolean {
  return text.replace(NOT_VISIBLE, '') !== ''
}

/** @returns null if a percent escape in it is not of UTF-8 */
export function percentDecoded(text: string): string | null {
  try {
    return decodeURIComponent(text)
  } catch {
    return null
  }
}
