import { describe, expect, test } from 'vitest'
import { readReportResponse } from '../../../src/keys/reports/report-response.ts'

describe('the response of the key service to a report', () => {
  test('names its signing secrets and the number of gateways', () => {
    const text = JSON.stringify({ signingSecrets: ['a', 'b'], gateways: 3 })
    expect(readReportResponse(text)).toEqual({ fingerprints: ['a', 'b'], gateways: 3 })
  })

  test.each([
    '',
    'no JSON',
    'null',
    '1',
    '{}',
    '{"signingSecrets":"abc","gateways":"3"}',
    '{"signingSecrets":[1]}',
  ])('may say neither, as in %j', text => {
    expect(readReportResponse(text)).toEqual({ fingerprints: [], gateways: null })
  })
})
