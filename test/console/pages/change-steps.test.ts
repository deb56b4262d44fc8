import { expect, test } from 'vitest'
import { areNamed, combineAnnounced, isAnnounced } from '../../../src/console/announcing/regions.ts'
import { expiryHtml, stateBadge } from '../../../src/console/keys/key-view.ts'
import { bulkSteps, changeSteps } from '../../../src/console/keys/operations/change-progress.ts'
import { NOW_MS, someKey } from '../../support/stored-keys.ts'

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
  const lastStep = String(changeSteps({ ...times, gateways: { ...gateways, regions: [] } }, null))
    .split('<li class=')
    .slice(3)
    .join()
  for (const word of words) expect(lastStep).toContain(word)
})

/** Of each step its class and its text. */
const stepsIn = (markup: unknown) =>
  [...String(markup).matchAll(/<li class="(\w+)"><strong>(.*?)<\/li>/g)].map(([, state, text = '']) => [
    state,
    text.replace(/<[^>]*>/g, '').trim(),
  ])

const ANNOUNCED = [{ region: 'default', announced: true }]
const WAITING = [{ region: 'default', announced: false }]
const SAVED = ['done', 'Saved 20 Nov 2026, 09:00:00.000 UTC']
const RETRIES = 'The console cannot reach Redis and keeps retrying.'

test.each([
  [
    'saved and announced',
    { committedAtMs: NOW_MS, announced: ANNOUNCED, announcedAtMs: NOW_MS + 7 },
    [SAVED, ['done', 'Announced 20 Nov 2026, 09:00:00.007 UTC, 7 ms later']],
  ],
  [
    'saved, and announced by another request',
    { committedAtMs: NOW_MS, announced: ANNOUNCED, announcedAtMs: null },
    [SAVED, ['done', 'Announced An earlier request announced it.']],
  ],
  [
    'saved, and not announced',
    { committedAtMs: NOW_MS, announced: WAITING, announcedAtMs: null },
    [SAVED, ['waiting', expect.stringContaining(`Not announced yet ${RETRIES}`)]],
  ],
  [
    'that needed no change',
    { committedAtMs: null, announced: ANNOUNCED, announcedAtMs: null },
    [['done', 'Announced An earlier request announced it.']],
  ],
])('a page says of a change how far it came: %s', (_, progress, steps) => {
  expect(stepsIn(changeSteps({ ...progress, gateways: null }, null))).toEqual(steps)
})

test.each([
  [ANNOUNCED, ['done', 'Announced']],
  [WAITING, ['waiting', expect.stringContaining(`Not all announced yet ${RETRIES}`)]],
])('a page says of many changes whether all are announced: %j', (announced, step) => {
  expect(stepsIn(bulkSteps({ announced, gateways: null }, null))).toEqual([step])
})

test.each(['active', 'retiring', 'suspended', 'expired', 'revoked'] as const)(
  'a page names the state of a key that is %s',
  state => {
    expect(String(stateBadge({ state })).toLowerCase()).toContain(`>${state}</span>`)
  },
)

const FORTNIGHT_MS = 14 * 86_400_000
test.each([
  ['active', FORTNIGHT_MS, /^<strong class="soon">/],
  ['active', FORTNIGHT_MS + 1, /^<time/],
  ['suspended', 1, /^<time/],
  ['retiring', 1, /^<time/],
  ['expired', -1, /^expired <time datetime="2026-11-20T08:59:59.999Z"/],
  ['revoked', 1, /^revoked <time datetime="2026-11-20T09:00:00.000Z"/],
] as const)('a page warns of an active key for its last 14 days: %s, %d ms', (state, leftMs, expected) => {
  const { record } = someKey({
    expiresAtMs: NOW_MS + leftMs,
    revokedAtMs: state === 'revoked' ? NOW_MS : null,
  })
  expect(String(expiryHtml({ record, state, lastUsedAtMs: null }, NOW_MS))).toMatch(expected)
})

test('a page names the regions of gateways, and gateways of none', () => {
  const counts = (known: number) => ({ known, confirmed: known, verifying: 0, silent: [] })
  const regions = [
    { name: 'eu', announced: true, gateways: counts(2) },
    { name: 'us', announced: false, gateways: counts(1) },
  ]
  const announced = regions.map(({ name, announced }) => ({ region: name, announced }))
  const times = { committedAtMs: NOW_MS, announcedAtMs: null, announced }
  const page = String(changeSteps({ ...times, gateways: { ...counts(4), regions } }, null))
  for (const words of [
    'The console cannot reach Redis in us and keeps retrying.',
    '<code>eu</code>: announced, confirmed by 2 of 2',
    '<code>us</code>: not announced yet, confirmed by 1 of 1',
    '1 gateway names none of these regions',
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
