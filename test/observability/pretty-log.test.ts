import { stripVTControlCharacters } from 'node:util'
import { expect, test } from 'vitest'
import { prettyLines } from '../../src/observability/log-sink.ts'

const shown = (...lines: readonly object[]) =>
  stripVTControlCharacters(prettyLines(lines.map(line => `${JSON.stringify(line)}\n`).join('')))

test('a log line for a person has time, level and message first, then each field', () => {
  const time = '2026-11-26T10:20:30.456Z'
  expect(
    shown(
      { level: 30, time, gateway: 'http://127.0.0.1:8080', msg: 'listening' },
      { level: 50, time, msg: 'failed' },
    ),
  ).toBe('10:20:30 INFO  listening  gateway=http://127.0.0.1:8080\n10:20:30 ERROR failed\n')
})

test('a text that could be taken for more fields, or that would move the cursor, is quoted', () => {
  const time = '2026-11-26T10:20:30.456Z'
  expect(shown({ level: 40, time, reason: 'a b', path: 'x=1', agent: '\u001b[2J', msg: 'rejected' })).toBe(
    '10:20:30 WARN  rejected  reason="a b" path="x=1" agent="\\u001b[2J"\n',
  )
})

test('what is no JSON stays as it is', () => {
  expect(prettyLines('out of memory\n')).toBe('out of memory\n')
})
