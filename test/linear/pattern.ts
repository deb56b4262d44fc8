/** A regular expression, parsed as far as needed to generate inputs for it. */
export type Pattern =
  /** One character; `index` among all of the expression. */
  | { readonly kind: 'atom'; readonly index: number }
  | { readonly kind: 'sequence'; readonly parts: readonly Pattern[] }
  | { readonly kind: 'choice'; readonly options: readonly Pattern[] }
  | { readonly kind: 'repeat'; readonly body: Pattern; readonly min: number }
  /** Consumes no character: an anchor, a lookahead or a lookbehind. */
  | { readonly kind: 'assertion'; readonly body: Pattern | null }

const TOKEN =
  /(?<open>\((?:\?(?:[:=!]|<[=!]|<[A-Za-z]\w*>))?)|(?<close>\))|(?<or>\|)|(?<anchor>\^|\$|\\[bB])|(?<times>(?:[*+?]|\{\d+(?:,\d*)?\})\??)|(?<atom>\[(?:[^\]\\]|\\.)*\]|\\u\{[0-9a-f]+\}|\\u[0-9a-f]{4}|\\x[0-9a-f]{2}|\\[pP]\{\w+\}|\\[^\dk]|[^\\])/isuy

/** @throws for unsupported syntax, such as a back-reference */
export function parsePattern(source: string): { pattern: Pattern; atoms: readonly string[] } {
  const atoms: string[] = []
  let at = 0

  function next(): Record<string, string | undefined> | null {
    TOKEN.lastIndex = at
    const groups = TOKEN.exec(source)?.groups
    if (groups === undefined && at < source.length) throw new Error(`Unknown at ${at}: ${source}`)
    return groups ?? null
  }

  function choice(): Pattern {
    const options: Pattern[] = [sequence()]
    while (next()?.['or'] !== undefined) {
      at += 1
      options.push(sequence())
    }
    return options.length === 1 && options[0] !== undefined ? options[0] : { kind: 'choice', options }
  }

  function sequence(): Pattern {
    const parts: Pattern[] = []
    for (let token = next(); token !== null; token = next()) {
      const { open, close, or, anchor, times, atom } = token
      if (close !== undefined || or !== undefined) break
      at += (open ?? anchor ?? times ?? atom ?? '').length
      if (open !== undefined) parts.push(group(open))
      else if (anchor !== undefined) parts.push({ kind: 'assertion', body: null })
      else if (atom !== undefined) parts.push({ kind: 'atom', index: atoms.push(atom) - 1 })
      else if (times !== undefined) parts.push(repeat(parts.pop(), times))
    }
    return { kind: 'sequence', parts }
  }

  function group(open: string): Pattern {
    const body = choice()
    at += 1 // Its closing parenthesis.
    return /^\(\?<?[=!]/.test(open) ? { kind: 'assertion', body } : body
  }

  function repeat(body: Pattern | undefined, times: string): Pattern {
    if (body === undefined) throw new Error(`Nothing to repeat: ${source}`)
    const min = /^\{(\d+)/.exec(times)?.[1] ?? (times.startsWith('+') ? '1' : '0')
    return { kind: 'repeat', body, min: Number(min) }
  }

  const pattern = choice()
  if (at < source.length) throw new Error(`Not read to its end: ${source}`)
  return { pattern, atoms }
}
