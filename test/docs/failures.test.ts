import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { settings } from '../../src/config/settings.ts'
import { createMetrics } from '../../src/observability/metrics.ts'

const README = readFileSync(new URL('../../README.md', import.meta.url), 'utf8')
const sectionOf = (heading: string) => README.split(`\n## ${heading}\n`)[1]?.split('\n## ')[0] ?? ''
const FAILURES = sectionOf('When something fails')

/** A table for bad hours must not send anybody looking for what is not there. */
test('whatever the table of failures says to look at is there', () => {
  const metrics = createMetrics()
    .registry.getMetricsAsArray()
    .map(({ name }) => name)
  const named = [...FAILURES.matchAll(/postern_[a-z_]+/g)].map(([name]) => name)
  expect(named.length).toBeGreaterThan(10)
  expect(named.filter(name => !metrics.includes(name))).toEqual([])
})

test('its codes are those of the table of errors, and its settings are settings', () => {
  const errors = sectionOf('Errors')
  const codes = [...FAILURES.matchAll(/^\| \d{3} `([a-z_]+)`/gm)].map(([, code = '']) => code)
  expect(codes.length).toBeGreaterThan(5)
  expect(codes.filter(code => !errors.includes(`\`${code}\``))).toEqual([])
  const paths = settings.map(({ path }) => path)
  const named = [...FAILURES.matchAll(/`((?:gateway|upstream|keys|limits|redis)\.[A-Za-z.]+)(?:`|:)/g)]
  expect(named.map(([, path = '']) => path).filter(path => !paths.includes(path))).toEqual([])
})
