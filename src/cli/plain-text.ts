/** Control characters, and those that turn the direction of text: a terminal would obey them. */
const UNPRINTABLE = /[\p{Cc}\p{Cs}\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/gu

/** Text from elsewhere as it may be shown at a terminal. */
export function plainText(text: string): string {
  return text.replace(UNPRINTABLE, '\u{fffd}')
}
