import { type Document, isAlias, isMap, isScalar, isSeq, LineCounter, type Node, parseDocument } from 'yaml'

/** A YAML file, and where its parts are. */
export interface LocatedYaml {
  readonly value: unknown
  /** The line of a name or entry, from 1; null if the file does not have it. Entries of a list go by number or by their `name`. */
  readonly lineOf: (path: readonly string[]) => number | null
}

export interface YamlFault {
  readonly line: number
  /** Without text of the file, which may be secret. */
  readonly what: string
}

type Located =
  | { readonly ok: true; readonly yaml: LocatedYaml }
  | { readonly ok: false; readonly faults: YamlFault[] }

export function parseLocatedYaml(text: string): Located {
  const lineCounter = new LineCounter()
  // Warnings stay off the terminal: like the parser's messages, they repeat lines of the file.
  const document = parseDocument(text, { lineCounter, logLevel: 'error' })
  const faults = document.errors.map(({ code, pos }) => ({
    line: Math.max(1, lineCounter.linePos(pos[0]).line),
    what: code.toLowerCase().replaceAll('_', ' '),
  }))
  if (faults.length > 0) return { ok: false, faults }
  const lineOf = (path: readonly string[]) => {
    const offset = findOffset(document, path)
    return offset === null ? null : lineCounter.linePos(offset).line
  }
  return { ok: true, yaml: { value: document.toJS(), lineOf } }
}

interface Place {
  readonly node: unknown
  /** Of a pair, its name: the value may begin on another line. */
  readonly named: unknown
}

function findOffset(document: Document, path: readonly string[]): number | null {
  let place: Place | null = { node: document.contents, named: null }
  for (const name of path) {
    place = childAt(document, place.node, name)
    if (place === null) return null
  }
  // Only nodes that were parsed have a range.
  return (place.named as Partial<Node> | null)?.range?.[0] ?? null
}

function childAt(document: Document, parent: unknown, name: string): Place | null {
  const node = isAlias(parent) ? parent.resolve(document) : parent
  if (isMap(node)) {
    const pair = node.items.find(({ key }) => isScalar(key) && String(key.value) === name)
    return pair === undefined ? null : { node: pair.value, named: pair.key }
  }
  if (!isSeq(node)) return null
  const item = /^\d+$/.test(name)
    ? node.items[Number(name)]
    : node.items.find(entry => isMap(entry) && entry.get('name') === name)
  return item === undefined ? null : { node: item, named: item }
}
