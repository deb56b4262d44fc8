import { existsSync, readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { tableRows } from './table-rows.ts'

const ROOT = new URL('../../', import.meta.url)
const TEXT = readFileSync(new URL('SECURITY.md', ROOT), 'utf8')

function rowsUnder(heading: string): string[][] {
  return tableRows(TEXT.split(heading)[1]?.split(/^#/m)[0] ?? '')
}

const filesIn = (text: string) =>
  [...text.matchAll(/`((?:test|src|helm|config)\/[^`\s]+)`/g)].map(([, path = '']) => path)

test('every test that SECURITY.md names exists', () => {
  const missing = filesIn(TEXT).filter(path => !existsSync(new URL(path, ROOT)))
  expect(missing).toEqual([])
})

test('the twelve worst threats are twelve, each with a tested countermeasure', () => {
  const rows = rowsUnder('### The twelve worst threats')
  expect(rows.map(([number]) => number)).toEqual(Array.from({ length: 12 }, (_, index) => String(index + 1)))
  for (const [, threat = '', kills = '', tests = ''] of rows) {
    expect([threat, kills.length > 0, filesIn(tests).length > 0]).toEqual([threat, true, true])
  }
})

test('every promise names its tests', () => {
  const rows = rowsUnder('## What is promised')
  expect(rows.length).toBeGreaterThan(5)
  expect(rows.filter(([, tests = '']) => filesIn(tests).length === 0)).toEqual([])
})

test('every command that SECURITY.md names exists', () => {
  const { scripts } = JSON.parse(readFileSync(new URL('package.json', ROOT), 'utf8')) as { scripts: object }
  const named = [...TEXT.matchAll(/`npm run ([a-z]+)/g)].map(([, name = '']) => name)
  expect(named.filter(name => !(name in scripts))).toEqual([])
})
