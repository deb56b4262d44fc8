import { InvalidArgumentError } from 'commander'
import { describe, expect, it, test } from 'vitest'
import { parseDuration } from '../../src/cli/duration.ts'
import { minuteOf, plainText, relativeTime } from '../../src/cli/text.ts'

describe('a duration', () => {
  it.each([
    ['45s', 45],
    ['30m', 1800],
    ['24h', 86_400],
    ['90d', 7_776_000],
    ['0s', 0],
    ['0', 0],
  ])('%s is %d seconds', (text, seconds) => {
    expect(parseDuration(text)).toBe(seconds)
  })

  it.each(['', '90', 'd', '-1d', '1.5d', '1w', '1D', ' 1d', '1d2h', '1e3s', '9999999999s'])(
    'is not %j',
    text => {
      expect(() => parseDuration(text)).toThrow(InvalidArgumentError)
    },
  )
})

describe('a time, as people say it', () => {
  const now = Date.parse('2026-11-20T12:00:00Z')

  it.each([
    ['2027-02-18T12:00:00.000Z', 'in 90 days'],
    ['2026-11-21T11:59:59.999Z', 'in 23 hours'],
    ['2026-11-20T12:01:00.000Z', 'in 1 minute'],
    ['2026-11-20T12:00:59.000Z', 'in under a minute'],
    ['2026-11-20T11:59:30.000Z', 'just now'],
    ['2026-11-20T11:57:00.000Z', '3 minutes ago'],
    ['2026-11-18T11:57:00.000Z', '2 days ago'],
  ])('%s is %s', (instant, words) => {
    expect(relativeTime(instant, now)).toBe(words)
  })

  test('to the minute', () => {
    expect(minuteOf('2027-02-18T09:07:59.123Z')).toBe('2027-02-18 09:07')
  })
})

it('text from elsewhere cannot move the cursor, hide itself or turn round', () => {
  expect(plainText('a\x1b[2Jb\r\nc\x9bd\u202ee\u2028')).toBe('a�[2Jb��c�d�e�')
  expect(plainText('Größe 大 👍🏽 wsk_…x7Qf')).toBe('Größe 大 👍🏽 wsk_…x7Qf')
})
