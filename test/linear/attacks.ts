import { type Pattern, parsePattern } from './pattern.ts'

/** An input with one repeated part: the start leads to it, the end makes the match fail late. */
export interface Attack {
  readonly start: string
  readonly pump: string
  readonly end: string
}

export function textOf({ start, pump, end }: Attack, length: number): string {
  return start + pump.repeat(Math.ceil(length / pump.length)) + end
}

const CANDIDATES = [
  ...Array.from({ length: 256 }, (_, code) => String.fromCharCode(code)),
  ...['\u200d', '\u2028', '\u3000', '\ufe0f', '\u{1f44d}', '\u{1f3fd}'],
]

/**
 * Inputs on which an expression might be slow: one or two repeated characters before each repetition in it, and the
 * expression's own beginning, each with several ends. One character stands for all that every part of the expression
 * treats alike.
 */
export function attacksOn(expression: RegExp): Attack[] {
  const { pattern, atoms } = parsePattern(expression.source)
  const flags = expression.flags.replace(/[gy]/g, '')
  const matchers = atoms.map(atom => new RegExp(`^(?:${atom})$`, flags))
  const signatureOf = (text: string) => matchers.map(matcher => (matcher.test(text) ? 1 : 0)).join('')
  // The last of each kind, so that letters are preferred to control characters.
  const kinds = new Map(CANDIDATES.map(text => [signatureOf(text), text]))
  const characters = [...kinds.values()]
  const atomTexts = matchers.map(matcher => characters.find(text => matcher.test(text)) ?? '')

  const breaking = characters.filter(text => !/[\w\s]/.test(text)).at(0) ?? '\u0000'
  // Also with a first character that prevents a match at the start.
  const starts = new Set<string>(['', breaking])
  const bodies = new Set<string>()
  const whole = walk(pattern, '', (start, body) => {
    starts.add(start)
    bodies.add(body)
  })

  /** Visits every repetition with the shortest text before it. @returns the shortest text up to its own end */
  function walk(node: Pattern, before: string, found: (start: string, body: string) => void): string {
    switch (node.kind) {
      case 'atom':
        return before + atomTexts[node.index]
      case 'sequence':
        return node.parts.reduce((text, part) => walk(part, text, found), before)
      case 'choice': {
        const texts = node.options.map(option => walk(option, before, found))
        return texts.reduce((best, text) => (text.length < best.length ? text : best))
      }
      case 'assertion':
        if (node.body !== null) walk(node.body, before, found)
        return before
      case 'repeat': {
        const body = walk(node.body, before, found).slice(before.length)
        found(before, body)
        return before + body.repeat(Math.min(node.min, 64))
      }
    }
  }

  const pairs = characters.flatMap(one => characters.filter(two => two !== one).map(two => one + two))
  const own = [...starts, ...bodies, ...[...starts].map(start => start + [...bodies].join('')), whole]
  return [...starts].flatMap(start => [
    ...characters.flatMap(pump => ['', ...characters].map(end => ({ start, pump, end }))),
    ...[...pairs, ...own.filter(text => text !== '')].flatMap(pump =>
      ['', breaking, '\u0000'].map(end => ({ start, pump, end })),
    ),
  ])
}
