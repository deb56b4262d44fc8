import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { PLANTED_FAULTS } from './planted-faults.ts'

test('each planted fault has a name and a place of its own', () => {
  expect(new Set(PLANTED_FAULTS.map(({ name }) => name)).size).toBe(PLANTED_FAULTS.length)
  for (const { file, from, to } of PLANTED_FAULTS.flatMap(({ mutations }) => mutations)) {
    const text = readFileSync(new URL(`../../../src/${file}`, import.meta.url), 'utf8')
    expect(text.split(from), `${file}: ${from}`).toHaveLength(2)
    expect(to).not.toBe(from)
  }
})
