import { existsSync, readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import type { Mutant } from './instrument.ts'
import { ROOT } from './plan.ts'
import { type Extent, listSurvivors, report } from './report.ts'
import type { Verdict } from './try-mutants.ts'

const mutants: readonly Mutant[] = Array.from({ length: 20 }, (_, index) => ({
  id: String(index),
  path: 'src/http/a.ts',
  line: index + 1,
  text: `line ${index}`,
  fault: 'a => b',
}))

/** The first mutants survive, and the list has a reason for the first of these. */
function isComplete(
  extent: Extent,
  survivors: number,
  listed: number,
  reason: string,
  part = 'http',
): boolean {
  const verdictOf = (index: number): Verdict => ({
    status: index < survivors ? 'survived' : 'killed',
    test: '',
  })
  const verdicts = new Map(mutants.map(({ id }, index) => [id, verdictOf(index)]))
  const known = new Map(
    mutants.slice(0, listed).map(({ path, text, fault }) => [`${path}: ${text}: ${fault}`, reason]),
  )
  return report(part, mutants, verdicts, extent, known).isComplete
}

test.each<[string, Extent, number, number, string, boolean]>([
  ['a whole part passes if 90 % are found and the others are listed', 'all', 2, 2, 'open: x', true],
  ['a whole part fails if a survivor is not listed', 'all', 2, 1, 'open: x', false],
  ['a whole part fails if fewer than 90 % are found', 'all', 3, 3, 'open: x', false],
  ['mutants that behave as the original do not count', 'all', 3, 3, 'same: x', true],
  ['a sample passes with survivors that are listed, however many it hits', 'sample', 12, 12, 'open: x', true],
  ['a sample passes with a few survivors that are not listed', 'sample', 14, 12, 'open: x', true],
  ['a sample fails if more than one in ten survive that are not listed', 'sample', 15, 12, 'open: x', false],
])('%s', (_, extent, survivors, listed, reason, expected) => {
  expect(isComplete(extent, survivors, listed, reason)).toBe(expected)
})

test('a sample of a part that no whole run has examined informs', () => {
  expect(isComplete('sample', 15, 0, 'open: x', 'console')).toBe(true)
})

test('each survivor on the list is of a line that the sources hold', () => {
  const isGone = ({ path, text, fault }: Pick<Mutant, 'path' | 'text' | 'fault'>) => {
    const lines = existsSync(`${ROOT}${path}`) ? readFileSync(`${ROOT}${path}`, 'utf8').split('\n') : []
    const [replaced = ''] = fault.split(' => ')
    // A long fault is cut in its middle.
    const [begin = '', end = ''] = replaced.split('…')
    return !lines.some((line, index) => {
      if (line.trim() !== text) return false
      const onOneLine = lines.slice(index).join(' ').replaceAll(/\s+/g, ' ')
      const at = onOneLine.indexOf(begin)
      return at >= 0 && onOneLine.includes(end, at)
    })
  }
  expect(listSurvivors().filter(isGone)).toEqual([])
})
