import { readFileSync } from 'node:fs'
import { runInNewContext } from 'node:vm'
import { expect, test } from 'vitest'
import { relativeTime } from '../../src/domain/form/instant.ts'

const SCRIPT = new URL('../../src/console/platform/html/assets/console.js', import.meta.url)
const NOW = Date.parse('2026-11-20T12:00:00Z')

test.each([
  ['2027-02-18T12:00:00.000Z', 'in 90 days'],
  ['2027-02-18T00:00:01.000Z', 'in 90 days'],
  ['2027-02-18T23:59:59.000Z', 'in 90 days'],
  ['2026-11-21T23:59:59.000Z', 'in 1 day'],
  ['2026-11-21T11:59:59.999Z', 'in 1 day'],
  ['2026-11-21T11:29:59.000Z', 'in 23 hours'],
  ['2026-11-20T13:29:00.000Z', 'in 1 hour'],
  ['2026-11-20T12:59:45.000Z', 'in 1 hour'],
  ['2026-11-20T12:59:15.000Z', 'in 59 minutes'],
  ['2026-11-20T12:00:29.000Z', 'in under a minute'],
  ['2026-11-20T12:00:00.000Z', 'just now'],
  ['2026-11-20T11:59:31.000Z', 'just now'],
  ['2026-11-20T11:59:30.000Z', '1 minute ago'],
  ['2026-11-20T11:57:00.000Z', '3 minutes ago'],
  ['2026-11-18T11:57:00.000Z', '2 days ago'],
])('%s is %s', (instant, words) => {
  expect(relativeTime(Date.parse(instant), NOW)).toBe(words)
})

test('a key issued for 90 days has 90 days left for the rest of that half day', () => {
  const expiresAtMs = NOW + 90 * 86_400_000
  for (let hours = 0; hours < 12; hours++) {
    expect(relativeTime(expiresAtMs, NOW + hours * 3_600_000)).toBe('in 90 days')
  }
})

test('the script of the console says the same as the pages and the command line', () => {
  const text = readFileSync(SCRIPT, 'utf8')
  const [source = ''] = /^const MINUTE_MS[\s\S]*?^function relativeTime[\s\S]*?^}$/m.exec(text) ?? []
  // The function is declared by the part of the script that was cut out above.
  const inBrowser = runInNewContext(`${source}\nrelativeTime`, { Intl }) as typeof relativeTime
  for (let ms = 1; ms < 10 ** 11; ms = Math.ceil(ms * 1.37)) {
    for (const atMs of [NOW + ms, NOW - ms]) expect(inBrowser(atMs, NOW)).toBe(relativeTime(atMs, NOW))
  }
  expect(inBrowser(NOW, NOW)).toBe('just now')
})
