import { expect, test } from 'vitest'
import { RegionCheck } from '../../../src/keys/reports/settings-checks.ts'
import { LogSpy } from '../../support/log-spy.ts'

test.each([
  ['its own region among them', 'eu', ['us', 'eu'], false],
  ['other regions alone', 'eu', ['us', 'ap'], true],
  ['the one of an installation without regions', 'eu', ['default'], true],
  ['named regions, where it has no name', undefined, ['us', 'eu'], true],
  ['one region, where neither has a name', undefined, ['default'], false],
  ['nothing, as another key service', 'eu', [], false],
])('a gateway whose key service says %s: its region is unknown: %s %j %s', (_, own, regions, isUnknown) => {
  const check = new RegionCheck(own, new LogSpy())
  check.observe(regions)
  expect(check.isUnknown).toBe(isUnknown)
})

test('an unknown region is logged once, and once that it is known again', () => {
  const log = new LogSpy()
  const check = new RegionCheck('eu', log)
  for (const regions of [['us'], ['us'], ['us', 'eu'], ['us', 'eu']]) check.observe(regions)
  expect(check.isUnknown).toBe(false)
  expect(log.lines.map(({ level, message }) => [level, message])).toEqual([
    ['error', 'the console has no such region'],
    ['info', 'the console has this region again'],
  ])
})
