import { type Html, html } from './html.ts'

/**
 * What has no look of its own, and what turns the direction of text. A joiner between two pictures makes one of them, and
 * stays; Hangul fillers and the Braille blank are letters to Unicode and nothing to the eye.
 */
const UNSEEN =
  /(?!(?<=\p{Extended_Pictographic}|\p{Emoji_Modifier}|\ufe0f)\u200d(?=\p{Extended_Pictographic}))[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\u115f\u1160\u2800\u3164\uffa0]/gu

/** Text of a person's as others are to see it: in a direction of its own, and with every unseen character named. */
export function markInvisible(text: string): Html {
  const seen = text.split(UNSEEN)
  const unseen = text.match(UNSEEN) ?? []
  const parts = seen.flatMap((part, index) => {
    const character = unseen[index]
    return character === undefined ? [part] : [part, mark(character)]
  })
  return html`<bdi>${parts}</bdi>`
}

function mark(character: string): Html {
  const code = (character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0')
  return html`<span class="unseen" title="A character that cannot be seen">U+${code}</span>`
}
