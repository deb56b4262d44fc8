import { styleText } from 'node:util'
import type { Host, Output } from '../../run/host.ts'

export type Colour = 'green' | 'yellow' | 'red' | 'gray' | 'bold'
/** Returns the text in a colour, or unchanged. */
export type Paint = (colour: Colour, text: string) => string

/** Colours only at a terminal, unless they are switched off (https://no-color.org). */
export function paintFor(stream: Pick<Output, 'isTTY'>, { environment }: Host): Paint {
  const declined = (environment['NO_COLOR'] ?? '') !== '' || environment['TERM'] === 'dumb'
  if (stream.isTTY !== true || declined) return (_, text) => text
  return (colour, text) => styleText(colour, text, { validateStream: false })
}
