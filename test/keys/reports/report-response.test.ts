import { describe, expect, test } from 'vitest'
import { readReportResponse } from '../../../src/keys/reports/change-confirmer.ts'

describe('the response of the key service to a report', () => {
  test('names its signing secrets, the number of gateways and the time', () => {
    const text = JSON.stringify({
      signingSecrets: ['a', 'b'],
      regions: ['eu', 7, 'us'],
      gateways: 3,
      at: 1_764_000_000_000,
    })
    expect(readReportResponse(text)).toEqual({
      fingerprints: ['a', 'b'],
      gateways: 3,
      atMs: 1_764_000_000_000,
      regions: ['eu', 'us'],
    })
  })

  test.each([
    '',
    'no JSON',
    'null',
    '1',
    '{}',
    '{"signingSecrets":"abc","gateways":"3"}',
    '{"signingSecrets":[1]}',
    '{"at":"2026-11-25T09:00:00Z"}',
    '{"at":-1}',
  ])('may say none of it, as in %j', text => {
    expect(readReportResponse(text)).toEqual({ fingerprints: [], gateways: null, atMs: null, regions: [] })
  })
})
