import { InvalidArgumentError } from 'commander'
import { describe, expect, it, test } from 'vitest'
import { minuteText, plainText } from '../../src/cli/cli.ts'
import { durationText, durationWithin, parseDuration } from '../../src/cli/options/values.ts'

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

  it.each([
    [0, '0 days'],
    [59, '59 seconds'],
    [60, '1 minute'],
    [5400, '90 minutes'],
    [86_400, '1 day'],
    [129_600, '36 hours'],
  ])('%d seconds reads %s', (seconds, text) => {
    expect(durationText(seconds)).toBe(text)
  })

  test('outside its bounds is rejected in the words of the command', () => {
    const parse = durationWithin('--expires-in', 60, 366 * 86_400)
    expect(parse('366d')).toBe(366 * 86_400)
    expect(() => parse('400d')).toThrow('--expires-in: 400 days is longer than 366 days')
    expect(() => parse('59s')).toThrow('--expires-in: 59 seconds is shorter than 1 minute')
  })
})

test('an instant is shown to the minute', () => {
  expect(minuteText('2027-02-18T09:07:59.123Z')).toBe('2027-02-18 09:07')
})

it('text from elsewhere cannot move the cursor, hide itself or reverse its direction', () => {
  expect(plainText('a\x1b[2Jb\r\nc\x9bd\u202ee\u2028')).toBe('a�[2Jb��c�d�e�')
  expect(plainText('Größe 大 👍🏽 wsk_…x7Qf')).toBe('Größe 大 👍🏽 wsk_…x7Qf')
})
