import { describe, expect, test } from 'vitest'
import { encodeRecord } from '../../../src/domain/wire.ts'
import { isNotOffered } from '../../../src/keys/tiers/key-service-client.ts'
import { readBatch, readSingle } from '../../../src/keys/tiers/key-service-store.ts'
import { digestNo, grantOf, recordOf } from '../../support/key-records.ts'

const KEY = digestNo(1)
const RECORD = encodeRecord(recordOf({ version: 3 }), KEY, null)
const FOUND = { kind: 'found', grant: grantOf({ version: 3 }) }
const failed = (message: string) => ({ kind: 'failed', error: new Error(message), why: 'unusable' })

describe('the response to a single lookup', () => {
  test('is the record of the key', () => {
    expect(readSingle({ status: 200, text: RECORD }, KEY)).toEqual(FOUND)
  })

  test('says that there is no such key only by the code not_found', () => {
    expect(readSingle({ status: 404, text: '{"code":"not_found"}' }, KEY)).toEqual({ kind: 'absent' })
  })

  test.each([
    [404, ''],
    [404, '<html>not_found</html>'],
    [404, '{"code":"no_route"}'],
    [404, '["not_found"]'],
    [404, 'null'],
    [404, '"not_found"'],
    [500, '{"code":"not_found"}'],
    [201, RECORD],
    [204, ''],
  ])('is a failure if another server may have sent it: %i %s', (status, text) => {
    expect(readSingle({ status, text }, KEY)).toEqual(
      failed(`The key service responded with status ${status}`),
    )
  })

  test('is a failure that says what is wrong with the record', () => {
    const other = encodeRecord(recordOf(), digestNo(2), null).replace(
      '"workspaceId":"ws_1"',
      '"workspaceId":1',
    )
    for (const text of [other, '{}', 'null', '']) {
      expect(readSingle({ status: 200, text }, KEY)).toMatchObject({
        kind: 'failed',
        why: 'unusable',
        error: { message: expect.stringMatching(/^The key service returned an invalid record: .+/) },
      })
    }
  })
})

describe('the response to a batch', () => {
  const read = (json: unknown, status = 200) => readBatch({ status, text: JSON.stringify(json) })

  test('has a result for each key: a record, an absence, or a failure of its own', () => {
    const resultFor = read({
      records: { [KEY]: JSON.parse(RECORD), [digestNo(2)]: null, [digestNo(3)]: { id: 1 } },
    })
    expect(resultFor(KEY)).toEqual(FOUND)
    expect(resultFor(digestNo(2))).toEqual({ kind: 'absent' })
    expect(resultFor(digestNo(3))).toMatchObject({ kind: 'failed', why: 'unusable' })
    expect(resultFor(digestNo(4))).toEqual(
      failed('The response of the key service to a batch omits this key'),
    )
    expect(resultFor('constructor')).toMatchObject({ kind: 'failed' })
  })

  test.each([null, [], {}, { records: null }, { records: [] }, { records: 'none' }, 'x'])(
    'without records fails for each key: %j',
    json => {
      expect(read(json)(KEY)).toEqual(
        failed('The response of the key service to a batch contains no records'),
      )
    },
  )

  test('with another status fails for each key, also with records', () => {
    expect(read({ records: { [KEY]: null } }, 500)(KEY)).toEqual(
      failed('The key service responded with status 500'),
    )
  })
})

test.each([
  [404, true],
  [405, true],
  [501, true],
  [400, false],
  [500, false],
  [200, false],
])('a call that gets %i is not offered: %s', (status, expected) => {
  expect(isNotOffered({ status, text: '' })).toBe(expected)
})
