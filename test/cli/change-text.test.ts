import { expect, test } from 'vitest'
import { notAnnouncedText, progressLines } from '../../src/cli/output/key-text.ts'

const SAVED_AT = '2026-11-24T12:00:00.000Z'
const all = (known: number) => ({ known, confirmed: known, verifying: 0, silent: [] })
const silent = [{ name: 'pod-7', lastSeenAt: SAVED_AT }]
const euAndUs = (us: object) => ({
  announced: false,
  gateways: { known: 5, confirmed: 3, verifying: 1, silent },
  regions: [
    { name: 'eu', announced: true, gateways: all(2) },
    { name: 'us', announced: false, gateways: { known: 3, confirmed: 1, verifying: 1, silent, ...us } },
  ],
})

test('a change names the regions that do not have it, and counts the gateways of each', () => {
  expect(progressLines(SAVED_AT, euAndUs({}))).toEqual([
    'Saved at 2026-11-24 12:00 UTC.',
    'Not announced yet. The console cannot reach Redis in us and keeps retrying. Disconnected gateways verify each key with the console before they accept it.',
    'Confirmed by 3 of 5 gateways; 1 is disconnected and checks each key with the console before accepting it; no confirmation within one second from pod-7.',
    'Region eu: announced, confirmed by 2 of 2.',
    'Region us: not announced yet, confirmed by 1 of 3, 1 disconnected, 1 without confirmation.',
  ])
})

test('a gateway that names a region which the console does not have is pointed out', () => {
  expect(progressLines(SAVED_AT, euAndUs({ known: 2 })).at(-1)).toBe(
    '1 gateway names none of these regions: set region there as the console does.',
  )
})

test('without regions, a change says nothing of them', () => {
  expect(progressLines(SAVED_AT, { announced: true, gateways: all(2) })).toEqual([
    'Saved and announced at 2026-11-24 12:00 UTC.',
    'Confirmed by 2 of 2 gateways.',
  ])
  expect(notAnnouncedText({})).toMatch(/^Not announced yet. The console cannot reach Redis and keeps/)
})
