import { globSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { allPatterns } from './choose-tests.ts'

const TESTS = fileURLToPath(new URL('..', import.meta.url))

/** One pattern for each name in braces, such as `a/{b,c}` in `a/b` and `a/c`. */
function alternatives(pattern: string): string[] {
  const [braces, names] = /\{([^{}]*)\}/.exec(pattern) ?? []
  if (braces === undefined || names === undefined) return [pattern]
  return names.split(',').flatMap(name => alternatives(pattern.replace(braces, name)))
}

test('each test that is named to find planted faults exists', () => {
  expect(alternatives('a/{b,c}/{d,e}.ts')).toEqual(['a/b/d.ts', 'a/b/e.ts', 'a/c/d.ts', 'a/c/e.ts'])
  const missing = allPatterns()
    .flatMap(alternatives)
    .filter(pattern => globSync(pattern, { cwd: TESTS }).length === 0)
  expect(missing).toEqual([])
})
