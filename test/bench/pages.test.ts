import { expect, test } from 'vitest'
import { GOALS } from './goals.ts'
import { readSection, resultSections } from './pages.ts'
import { readRatios, readResults } from './results.ts'

const sections = resultSections(readResults(), readRatios())

test.each(sections)('section $name of $page says what the results file says (npm run docs)', section => {
  expect(readSection(section.page, section.name)).toBe(section.text)
})

test('every figure with a goal is marked met or missed, by the figures that stand beside the mark', () => {
  const rows = sections
    // Starts have one row of goals below, and are checked by the next test.
    .filter(({ name }) => name !== 'bench-starts')
    .flatMap(({ text }) => text.split('\n'))
    .map(line => line.split('|').map(cell => cell.trim()))
    .filter(cells => cells.some(cell => cell === 'met' || cell === 'missed'))
  // Four rows of the README, all goals, two latencies, of what CI compares with those that are goals, and beside another commit
  // those of default settings, one latency and a start.
  const gated = GOALS.filter(({ name, to }) => `${name} : ${to}` in readRatios().ratios)
  const ofDefaults = GOALS.filter(({ name }) => !/cached|assertion/.test(name))
  expect(rows).toHaveLength(4 + GOALS.length + 2 + gated.length + ofDefaults.length + 3)
  for (const cells of rows) {
    const [mark, goal] = cells.filter(cell => cell !== '').toReversed()
    const figure = cells[2]
    expect(mark, cells.join(' ')).toBe(
      Number.parseFloat(figure ?? '') <= Number.parseFloat(goal ?? '') ? 'met' : 'missed',
    )
  }
})

test('a start is marked for each of its two goals', () => {
  const text = sections.find(({ name }) => name === 'bench-starts')?.text ?? ''
  const rows = text.split('\n').map(line => line.split('|').map(cell => cell.trim()))
  const goals = rows.find(([, name]) => name === 'goal: at most') ?? []
  const marked = rows.filter(cells => cells[3] === 'met' || cells[3] === 'missed')
  expect(marked).toHaveLength(2)
  for (const cells of marked)
    for (const at of [2, 4])
      expect(cells[at + 1]).toBe(Number(cells[at]) <= Number(goals[at]) ? 'met' : 'missed')
})
