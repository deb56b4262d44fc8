import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { settings } from '../../src/config/settings.ts'
import { DENIAL_REASONS } from '../../src/domain/denial.ts'
import { createMetrics } from '../../src/observability/metrics/metrics.ts'

const textOf = (page: string) => readFileSync(new URL(`../../docs/${page}`, import.meta.url), 'utf8')

function sectionOf(page: string, heading: string): string {
  return textOf(page).split(`\n## ${heading}\n`)[1]?.split('\n## ')[0] ?? ''
}
const FAILURES = sectionOf('operate/troubleshooting.md', 'Symptoms')

test('docs/operate/troubleshooting.md explains every denial reason that the log can name', () => {
  const page = textOf('operate/troubleshooting.md')
  expect(DENIAL_REASONS.filter(reason => !page.includes(`\`${reason}\``))).toEqual([])
})

test('each metric that the table of symptoms names exists', () => {
  const metrics = createMetrics()
    .registry.getMetricsAsArray()
    .map(({ name }) => name)
  const named = [...FAILURES.matchAll(/postern_[a-z_]+/g)].map(([name]) => name)
  expect(named.length).toBeGreaterThan(10)
  expect(named.filter(name => !metrics.includes(name))).toEqual([])
})

test('its codes are in the integrators’ table of errors, and its settings exist', () => {
  const errors = sectionOf('integrators.md', 'Errors')
  const codes = [...FAILURES.matchAll(/^\| \d{3} `([a-z_]+)`/gm)].map(([, code = '']) => code)
  expect(codes.length).toBeGreaterThan(5)
  expect(codes.filter(code => !errors.includes(`\`${code}\``))).toEqual([])
  const paths = settings.map(({ path }) => path)
  const named = [...FAILURES.matchAll(/`((?:gateway|upstream|keys|limits|redis)\.[A-Za-z.]+)(?:`|:)/g)]
  expect(named.map(([, path = '']) => path).filter(path => !paths.includes(path))).toEqual([])
})
