/** The parts of a query that the tests need; not a full parser of PromQL. */
export interface Selector {
  readonly metric: string
  /** Names of labels in its matchers. */
  readonly labels: readonly string[]
}

export interface QueryParts {
  readonly selectors: readonly Selector[]
  /** Labels that results are grouped or joined by. */
  readonly grouping: readonly string[]
}

const GROUPING = /\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)/g
const SELECTOR = /([a-zA-Z_:][\w:]*)\s*\{([^}]*)\}/g
const KEYWORDS = new Set(['and', 'or', 'unless', 'offset', 'bool', 'inf', 'nan'])

export function partsOf(expr: string): QueryParts {
  const grouping: string[] = []
  const selectors: Selector[] = []
  const rest = expr
    // Strings first, because they may contain any character.
    .replace(/"(?:[^"\\]|\\.)*"/g, '""')
    .replace(GROUPING, (_, labels: string) => {
      grouping.push(...labels.split(',').map(label => label.trim()))
      return ' '
    })
    .replace(SELECTOR, (_, metric: string, matchers: string) => {
      const labels = matchers.split(',').map(matcher => matcher.split(/[=!]/)[0]?.trim() ?? '')
      selectors.push({ metric, labels: labels.filter(label => label !== '') })
      return ' '
    })
    .replace(/\[[^\]]*\]/g, ' ')
  for (const [, name = ''] of rest.matchAll(/(?<![\w.:$])([a-zA-Z_:][\w:]*)(?!\s*\(|[\w:])/g)) {
    if (!KEYWORDS.has(name.toLowerCase())) selectors.push({ metric: name, labels: [] })
  }
  return { selectors, grouping: grouping.filter(label => label !== '') }
}
