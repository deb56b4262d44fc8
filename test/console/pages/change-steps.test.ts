import { expect, test } from 'vitest'
import { areNamed, combineAnnounced, isAnnounced } from '../../../src/console/announcing/regions.ts'
import { changeSteps } from '../../../src/console/keys/change-progress.ts'
import { NOW_MS } from '../../support/stored-keys.ts'

const silent = [{ name: 'pod-7', lastSeenAtMs: NOW_MS - 1_000 }]

test.each([
  [
    'confirmed',
    { known: 2, confirmed: 2, verifying: 0, silent: [] },
    ['done', 'Confirmed by 2 of 2 gateways'],
  ],
  [
    'disconnected',
    { known: 1, confirmed: 0, verifying: 1, silent: [] },
    ['done', 'Confirmed by 0 of 1 gateway', '1 is disconnected and checks each key with the console'],
  ],
  [
    'silent',
    { known: 2, confirmed: 1, verifying: 0, silent },
    ['waiting', 'Confirmed by 1 of 2 gateways', 'No confirmation within one second from:', 'pod-7'],
  ],
  [
    'unknown',
    { known: 0, confirmed: 0, verifying: 0, silent: [] },
    ['waiting', 'No gateways known', 'No gateway has reported to this console within the last minute'],
  ],
])('a page describes gateways that are %s', (_, gateways, words) => {
  const times = { committedAtMs: NOW_MS, announcedAtMs: NOW_MS + 7, announced: [] }
  const lastStep = String(changeSteps({ ...times, gateways: { ...gateways, regions: [] } }))
    .split('<li class=')
    .slice(3)
    .join()
  for (const word of words) expect(lastStep).toContain(word)
})

test('a page names the regions of gateways, and gateways of none', () => {
  const counts = (known: number) => ({ known, confirmed: known, verifying: 0, silent: [] })
  const regions = [
    { name: 'eu', announced: true, gateways: counts(2) },
    { name: 'us', announced: false, gateways: counts(1) },
  ]
  const announced = regions.map(({ name, announced }) => ({ region: name, announced }))
  const times = { committedAtMs: NOW_MS, announcedAtMs: null, announced }
  const page = String(changeSteps({ ...times, gateways: { ...counts(4), regions } }))
  for (const words of [
    'Regions that wait: us.',
    '<code>eu</code>: confirmed by 2 of 2',
    '<code>us</code>: not announced yet; confirmed by 1 of 1',
    '1 in none of these regions',
  ]) {
    expect(page).toContain(words)
  }
})

test.each([
  [['default'], false],
  [['eu'], true],
  [['default', 'eu'], true],
])('of the regions %j the page says which: %s', (names, expected) => {
  expect(areNamed(names.map(region => ({ region, announced: true })))).toBe(expected)
})

test('changes are announced to a region once each of them is', () => {
  const toBoth = (eu: boolean, us: boolean) => [
    { region: 'eu', announced: eu },
    { region: 'us', announced: us },
  ]
  const all = combineAnnounced([toBoth(true, true), toBoth(true, false), toBoth(true, true)])
  expect(all).toEqual(toBoth(true, false))
  expect([isAnnounced(all), isAnnounced(toBoth(true, true))]).toEqual([false, true])
})
