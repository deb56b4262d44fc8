import { parseAst } from 'vitest/node'

export interface FoundFunction {
  /** `(anonymous)` for one without a name. */
  readonly name: string
  readonly line: number
  readonly lines: number
}

const KINDS: ReadonlySet<unknown> = new Set([
  'FunctionDeclaration',
  'FunctionExpression',
  'ArrowFunctionExpression',
])

/** Every function in a source text, including methods and arrow functions, with its lines. */
export function functionsOf(text: string, lang: 'js' | 'ts' = 'ts'): FoundFunction[] {
  const found: FoundFunction[] = []
  visit(parseAst(text, { lang }), null, (node, parent) => {
    if (!KINDS.has(Reflect.get(node, 'type'))) return
    const [from, to] = [lineAt(text, node, 'start'), lineAt(text, node, 'end')]
    found.push({ name: nameOf(node) ?? nameOf(parent) ?? '(anonymous)', line: from, lines: to - from + 1 })
  })
  return found
}

function lineAt(text: string, node: object, edge: 'start' | 'end'): number {
  return text.slice(0, Number(Reflect.get(node, edge))).split('\n').length
}

/** The name of a declaration, or of the method or variable that the function is assigned to. */
function nameOf(node: object | null): string | null {
  if (node === null) return null
  const id: unknown = Reflect.get(node, 'id') ?? Reflect.get(node, 'key')
  const name: unknown = typeof id === 'object' && id !== null ? Reflect.get(id, 'name') : undefined
  return typeof name === 'string' ? name : null
}

/** Calls `see` for each part of a syntax tree, with the part around it. */
export function visit(
  node: unknown,
  parent: object | null,
  see: (node: object, parent: object | null) => void,
): void {
  if (typeof node !== 'object' || node === null) return
  if (Array.isArray(node)) {
    for (const part of node) visit(part, parent, see)
    return
  }
  see(node, parent)
  for (const part of Object.values(node)) visit(part, node, see)
}
