import { describe, expect, test } from 'vitest'
import {
  countFieldLines,
  DiscardLimits,
  isCompleteBody,
  isValidHead,
} from '../../../src/upstream/pool/exchange.ts'
import type { UpstreamHeaders } from '../../../src/upstream/pool/exchange-parties.ts'
import { ScriptedExchange } from '../../support/scripted-exchange.ts'

const length = { 'content-length': '5' }
const chunked = { 'transfer-encoding': 'chunked' }

test.each<[number, UpstreamHeaders, number, boolean]>([
  [200, length, 1, true],
  [200, chunked, 1, true],
  [200, { 'transfer-encoding': 'Chunked' }, 1, true],
  [599, length, 1, true],
  [200, length, 100, true],
  [204, {}, 0, true],
  [204, length, 1, true],
  [304, {}, 0, true],
  [304, length, 1, true],
  // Unknown, or too long.
  [600, length, 1, false],
  [200, length, 101, false],
  [204, {}, 101, false],
  // Two ends, or none.
  [200, { ...length, ...chunked }, 2, false],
  [304, { ...length, ...chunked }, 2, false],
  [200, {}, 0, false],
  [205, {}, 0, false],
  [200, { 'content-length': ['5', '5'] }, 2, false],
  [200, { 'transfer-encoding': ['chunked', 'chunked'] }, 2, false],
  [200, { 'transfer-encoding': 'gzip, chunked' }, 1, false],
  [200, { 'transfer-encoding': '' }, 1, false],
])('a %i with %j in %i fields says where its body ends: %s', (status, headers, fields, isValid) => {
  expect(isValidHead(status, headers, fields)).toBe(isValid)
})

test.each<[UpstreamHeaders, boolean]>([
  [{ 'content-length': '5' }, true],
  [{ 'content-length': '5 ' }, true],
  [{ 'content-length': '6' }, false],
  [chunked, false],
])('five bytes are the whole body of a response with %j: %s', (headers, isComplete) => {
  expect(isCompleteBody(5, headers)).toBe(isComplete)
})

test('no bytes are the body of a response only if its length is 0', () => {
  expect(isCompleteBody(0, { 'content-length': '0' })).toBe(true)
  expect(isCompleteBody(0, {})).toBe(false)
})

describe('an exchange may receive', () => {
  test('ten interim responses, and no switch of protocols', () => {
    const limits = new DiscardLimits()
    const seen = Array.from({ length: 11 }, () => limits.exceededByInterim(103))
    expect(seen.indexOf(true)).toBe(10)
    expect(new DiscardLimits().exceededByInterim(101)).toBe(true)
  })

  test('64 KiB of a body that is discarded, in any pieces', () => {
    const limits = new DiscardLimits()
    expect([limits.exceededByDiscarded(65_535), limits.exceededByDiscarded(1)]).toEqual([false, false])
    expect(limits.exceededByDiscarded(1)).toBe(true)
  })
})

test('field lines are counted, each of a repeated name; none without a head', () => {
  const controller = (rawHeaders: Buffer[] | null) => ({ ...new ScriptedExchange().controller, rawHeaders })
  expect(countFieldLines(controller(['A', 'b', 'A', 'c'].map(text => Buffer.from(text))))).toBe(2)
  expect(countFieldLines(controller(null))).toBe(0)
})
