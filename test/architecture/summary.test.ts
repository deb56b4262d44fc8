import { globSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'
import { folderOf, PROTECTED, summaryOf, type TestedFile } from '../support/summary.ts'
import { GO, HAPROXY, HELM, POSTGRES } from '../support/tools.ts'

const CHECKOUT = fileURLToPath(new URL('../../', import.meta.url))
const FOLDERS = new Set(globSync('test/**/*.test.ts', { cwd: CHECKOUT }).map(file => folderOf({ file })))
/** Lines and columns of a small terminal. */
const SCREEN = { lines: 40, columns: 120 }

const tested = (file: string, more: Partial<TestedFile> = {}): TestedFile => ({
  ...{ file, passed: 3, failed: 0, skipped: 0, isBroken: false, missing: [] },
  ...more,
})
const summary = (files: readonly TestedFile[], namePattern: string | null = null) =>
  summaryOf({ files, seconds: 7, withWhat: 'Redis 7.0.15 on Node v24', namePattern })

describe('the last lines of npm test', () => {
  test('say for each folder of tests, once, what it protects', () => {
    const named = PROTECTED.flatMap(([, ...folders]) => folders)
    expect(named.toSorted()).toEqual([...new Set(named)].toSorted())
    expect([...FOLDERS].filter(folder => !named.includes(folder))).toEqual([])
  })

  test('fit a screen, also if each folder fails and lacks a tool', () => {
    const missing = [GO, HAPROXY, HELM, POSTGRES]
    const files = [...FOLDERS].flatMap(folder => [
      tested(`test/${folder}/a.test.ts`, { skipped: 1, missing }),
      tested(`test/${folder}/b.test.ts`, { passed: 2_000, failed: 12, skipped: 1, isBroken: true }),
    ])
    const lines = summary(files)
    expect(lines.length).toBeLessThanOrEqual(SCREEN.lines)
    const rows = lines.filter(line => !/^\d/.test(line))
    expect(Math.max(...rows.map(line => line.length))).toBeLessThanOrEqual(SCREEN.columns)
  })

  test('are about the files that ran alone', () => {
    expect(summary([tested('test/cli/a.test.ts'), tested('test/gateway/b.test.ts')])).toEqual([
      expect.stringMatching(/^Passed/),
      '     3  a request needs a valid key with the scope, of its workspace  [gateway]',
      '     3  commands say what they did, and exit accordingly  [cli]',
      '6 tests of 2 files passed and 0 failed, in 7 s with Redis 7.0.15 on Node v24',
    ])
  })

  test('count what failed, and files with an error outside of their tests', () => {
    const lines = summary([
      tested('test/cli/a.test.ts', { passed: 1, failed: 2 }),
      tested('test/new/b.test.ts', { passed: 0, isBroken: true }),
    ]).slice(1)
    expect(lines).toEqual([
      '     1  commands say what they did, and exit accordingly  [cli]  2 FAILED',
      '     0  other tests  [new]',
      '1 tests of 2 files passed and 2 failed, in 7 s with Redis 7.0.15 on Node v24',
      '1 files ended with an error outside of their tests: see above',
    ])
  })

  test('name the tools that are missing for tests that were left out, and the commands that bring them', () => {
    const lines = summary([
      tested('test/helm/a.test.ts', { skipped: 2, missing: [HELM, GO] }),
      tested('test/docs/b.test.ts', { skipped: 1, missing: [HAPROXY, GO] }),
      tested('test/cli/c.test.ts', { skipped: 1 }),
    ])
    expect(lines.slice(-5)).toEqual([
      '4 tests were left out. Missing here: helm, go, haproxy. To run them, too:',
      '  sudo apt-get install golang-go haproxy',
      `  ${HELM.otherwise}`,
      'Left out for another reason, which their names say:',
      '  1 of test/cli/c.test.ts',
    ])
  })

  test('take no test for missing that was not asked for by name', () => {
    const none = tested('test/gateway/b.test.ts', { passed: 0, skipped: 20 })
    expect(summary([tested('test/cli/a.test.ts', { skipped: 40 }), none], 'help').slice(1)).toEqual([
      '     3  commands say what they did, and exit accordingly  [cli]',
      '3 tests of 1 files passed and 0 failed, in 7 s with Redis 7.0.15 on Node v24',
      'Only tests whose names match help were to run',
    ])
  })
})
