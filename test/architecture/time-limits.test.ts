import { globSync, readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { parseAst } from 'vitest/node'
import { HOOK_LIMIT_MS, TEST_LIMIT_MS } from '../support/time-limits.ts'
import { visit } from './functions.ts'

const TEST = /^(?:test|it|describe)\b/
const HOOK = /^(?:before|after)(?:All|Each)$/
/** `{ timeout: 60_000 }`, or the last argument alone; a number, or the name of one. */
const LIMIT = /^(?:\{\s*timeout: (?<named>[\w]+),?\s*\}|(?<last>[\dA-Z][\dA-Z_]*))$/

/** `file:line` of each test and hook in a source text whose own limit is below that of all others. */
function shortLimitsOf(file: string, text: string): string[] {
  const found: string[] = []
  visit(parseAst(text, { lang: 'ts' }), null, node => {
    if (Reflect.get(node, 'type') !== 'CallExpression') return
    const source = (part: unknown) => {
      if (typeof part !== 'object' || part === null) return ''
      return text.slice(Number(Reflect.get(part, 'start')), Number(Reflect.get(part, 'end')))
    }
    const callee = source(Reflect.get(node, 'callee'))
    const leastMs = HOOK.test(callee) ? HOOK_LIMIT_MS : TEST.test(callee) ? TEST_LIMIT_MS : 0
    const parts: unknown = Reflect.get(node, 'arguments')
    for (const part of Array.isArray(parts) ? parts : []) {
      const { named, last } = LIMIT.exec(source(part))?.groups ?? {}
      const word = named ?? last ?? ''
      const value = new RegExp(`^const ${word} = ([\\d_]+)$`, 'm').exec(text)?.[1] ?? word
      const limitMs = Number.parseInt(value.replaceAll('_', ''), 10)
      if (limitMs < leastMs) found.push(`${file}: ${source(part)} after ${callee.slice(0, 60)}`)
    }
  })
  return found
}

test('no test needs a quiet machine: none has less time than all tests have', () => {
  const files = globSync('test/**/*.ts').filter(file => !file.startsWith('test/mutation/'))
  expect(files.length).toBeGreaterThan(500)
  expect(files.flatMap(file => shortLimitsOf(file, readFileSync(file, 'utf8')))).toEqual([])
})

test.each([
  "test('a', { timeout: 5_000 }, () => {})",
  "test.skipIf(true)('a', () => {}, 5_000)",
  "describe.each([1])('a', { timeout: 60_000 }, () => {})",
  'beforeAll(() => {}, 60_000)',
  "const LONG_MS = 60_000\ntest('a', { timeout: LONG_MS }, () => {})",
  'const LONG_MS = 60_000\nafterAll(() => {}, LONG_MS)',
])('a limit of its own is found: %s', text => {
  expect(shortLimitsOf('a.test.ts', text)).toHaveLength(1)
})
