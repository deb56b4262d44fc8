import { hasVisible } from '../../../domain/visible-text.ts'
import { type Html, html } from './html.ts'

/**
 * Invisible characters and those that change the direction of text. A joiner within an emoji stays; Hangul fillers and the
 * Braille blank count as letters in Unicode but are invisible.
 */
const INVISIBLE =
  /(?!(?<=\p{Extended_Pictographic}|\p{Emoji_Modifier}|\ufe0f)\u200d(?=\p{Extended_Pictographic}))[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\u115f\u1160\u2800\u3164\uffa0]/gu

/** More would fill the page. */
const MAX_MARKED = 8

/**
 * Isolates the direction of user text and shows its invisible characters by their code point. Of a text without a visible
 * character each is shown, up to a number: a link made of it would have no width.
 */
export function markInvisible(text: string): Html {
  if (text !== '' && !hasVisible(text)) {
    const characters = [...text]
    const rest = characters.length > MAX_MARKED ? ['…'] : []
    return html`<bdi>${[...characters.slice(0, MAX_MARKED).map(mark), ...rest]}</bdi>`
  }
  const visible = text.split(INVISIBLE)
  const invisible = text.match(INVISIBLE) ?? []
  const parts = visible.flatMap((part, index) => {
    const character = invisible[index]
    return character === undefined ? [part] : [part, mark(character)]
  })
  return html`<bdi>${parts}</bdi>`
}

function mark(character: string): Html {
  const code = (character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0')
  return html`<span class="unseen" title="Invisible character">U+${code}</span>`
}
