import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { alerts } from '../../observability/rule-files.ts'
import { FAULTS, type Fault } from './faults.ts'
import type { Firing } from './night.ts'
import { tableOf, wrongIn } from './report.ts'

const fault: Fault = {
  name: 'redis-stopped',
  named: ['PosternKeyStoreUnavailable'],
  expected: ['PosternUsageReportsLate'],
  shows: /ECONNREFUSED/,
  begin: () => Promise.reject(new Error('It is not run here')),
}
const fires = (alert: string, fromSeconds: number): Firing => ({
  ...{ alert, severity: 'critical', description: '', fromSeconds },
  toSeconds: null,
})
const runbook = { alert: 'PosternKeyStoreUnavailable', output: 'connect ECONNREFUSED' }

test('every alert that a fault of the night must or may raise exists', () => {
  const names = alerts.map(({ alert }) => alert)
  const chosen = FAULTS.flatMap(({ named, expected = [] }) => [...named, ...expected])
  expect(chosen.filter(name => !names.includes(name))).toEqual([])
})

test('every alert that must name a fault of the night is in its page', () => {
  const page = readFileSync(new URL('../../../docs/operate/observability.md', import.meta.url), 'utf8')
  expect(FAULTS.flatMap(({ named }) => named.slice(0, 1)).filter(name => !page.includes(name))).toEqual([])
})

test('a fault that is named within five minutes, whose runbook shows the cause, is well', () => {
  const firings = [fires('PosternKeyStoreUnavailable', 129), fires('PosternUsageReportsLate', 400)]
  expect(wrongIn({ fault, firings, runbook })).toEqual([])
  expect(tableOf([{ fault, firings, runbook }]).at(-1)).toBe(
    '| redis-stopped | PosternKeyStoreUnavailable (critical) 129 s | PosternUsageReportsLate (critical) 400 s | – |',
  )
})

test.each<[string, readonly Firing[], string | null, string]>([
  [
    'that no alert names',
    [fires('PosternUsageReportsLate', 400)],
    'connect ECONNREFUSED',
    'no alert names the cause',
  ],
  ['named late', [fires('PosternKeyStoreUnavailable', 301)], 'connect ECONNREFUSED', 'named after 300 s'],
  [
    'with another alert',
    [fires('PosternKeyStoreUnavailable', 129), fires('PosternTargetDown', 200)],
    'connect ECONNREFUSED',
    'PosternTargetDown fires after 200 s',
  ],
  [
    'with an alert before it',
    [fires('PosternUsageReportsLate', -5), fires('PosternKeyStoreUnavailable', 129)],
    'connect ECONNREFUSED',
    'PosternUsageReportsLate fires after -5 s',
  ],
  [
    'whose runbook does not show the cause',
    [fires('PosternKeyStoreUnavailable', 129)],
    'no response',
    'the commands of the runbook do not show /ECONNREFUSED/',
  ],
])('a fault %s is reported', (_, firings, output, wrong) => {
  expect(wrongIn({ fault, firings, runbook: { ...runbook, output: output ?? '' } })).toEqual([wrong])
})
