import { readdirSync, readFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseAst } from 'vitest/node'

const ROOT = fileURLToPath(new URL('../../src/', import.meta.url))

export interface FoundExpression {
  /** `domain/route/route.ts` */
  readonly path: string
  readonly expression: RegExp
}

export interface Expressions {
  readonly literals: readonly FoundExpression[]
  /** Files that build expressions from text, once each. */
  readonly constructors: readonly string[]
}

/** All regular expressions of the program, from its syntax trees. */
export function expressionsOfSource(): Expressions {
  const files = readdirSync(ROOT, { recursive: true, withFileTypes: true })
    .filter(entry => entry.isFile() && /\.[cm]?[jt]s$/.test(entry.name))
    .map(entry => relative(ROOT, join(entry.parentPath, entry.name)))
    .sort()
  const found = files.map(path => ({ path, ...expressionsIn(readFileSync(join(ROOT, path), 'utf8')) }))
  return {
    literals: found.flatMap(({ path, literals }) => literals.map(expression => ({ path, expression }))),
    constructors: found.flatMap(({ path, constructors }) => Array<string>(constructors).fill(path)),
  }
}

export function expressionsIn(text: string): { literals: RegExp[]; constructors: number } {
  const literals: RegExp[] = []
  let constructors = 0
  visit(parseAst(text, { lang: 'ts' }), node => {
    const regex = propertyOf(node, 'regex')
    if (regex !== undefined) {
      literals.push(new RegExp(String(propertyOf(regex, 'pattern')), String(propertyOf(regex, 'flags'))))
    }
    const callee = propertyOf(node, 'callee')
    if (propertyOf(callee, 'name') === 'RegExp') constructors += 1
  })
  return { literals, constructors }
}

/** Every `pattern` in a schema: Ajv compiles them to expressions. */
export function patternsIn(schema: unknown): RegExp[] {
  const found: RegExp[] = []
  visit(schema, node => {
    const pattern = propertyOf(node, 'pattern')
    if (typeof pattern === 'string') found.push(new RegExp(pattern, 'u'))
    const names = propertyOf(node, 'patternProperties')
    if (typeof names === 'object' && names !== null) {
      found.push(...Object.keys(names).map(name => new RegExp(name, 'u')))
    }
  })
  return found
}

function visit(node: unknown, see: (node: object) => void, seen = new Set<object>()): void {
  if (typeof node !== 'object' || node === null || seen.has(node)) return
  seen.add(node)
  see(node)
  for (const part of Object.values(node)) visit(part, see, seen)
}

function propertyOf(node: unknown, name: string): unknown {
  return typeof node === 'object' && node !== null ? Reflect.get(node, name) : undefined
}
