import { expect, test } from 'vitest'
import { FailureLog } from '../../src/observability/failure-log.ts'
import { LogSpy } from '../support/log-spy.ts'
import { ManualClock } from '../support/manual-clock.ts'

const MINUTE_MS = 60_000
const coded = (code: string) => Object.assign(new Error(`it is ${code}`), { code })

function watch() {
  const clock = new ManualClock()
  const log = new LogSpy()
  const failures = new FailureLog('part', log, clock)
  const codes = () => log.lines.map(({ level, fields }) => ('code' in fields ? fields.code : level))
  return { clock, failures, codes }
}

test('a failure that lasts is logged once, and again each minute, so that the last minutes of a log name it', () => {
  const { clock, failures, codes } = watch()
  for (let second = 0; second < 150; second++) {
    failures.failed(coded('DOWN'))
    clock.advance(1000)
  }
  expect(codes()).toEqual(['DOWN', 'DOWN', 'DOWN'])
  failures.succeeded()
  expect(codes()).toEqual(['DOWN', 'DOWN', 'DOWN', 'info'])
})

test('a new cause of a failure that lasts is logged, at most one line in five seconds', () => {
  const { clock, failures, codes } = watch()
  failures.failed(coded('REFUSED'))
  failures.failed(coded('TLS'))
  clock.advance(5000)
  failures.failed(coded('TLS'))
  expect(codes()).toEqual(['REFUSED', 'TLS'])
  for (let second = 0; second < 20; second++) {
    failures.failed(coded(second % 2 === 0 ? 'REFUSED' : 'TLS'))
    clock.advance(1000)
  }
  expect(codes().length).toBeLessThanOrEqual(2 + 4)
})

test('a failure that comes and goes is logged at most once in five seconds', () => {
  const { clock, failures, codes } = watch()
  for (let call = 0; call < 60; call++) {
    failures.failed(coded('DOWN'))
    failures.succeeded()
    clock.advance(MINUTE_MS / 60)
  }
  expect(codes().filter(code => code === 'DOWN')).toHaveLength(12)
})
