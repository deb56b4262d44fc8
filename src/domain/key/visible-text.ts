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
