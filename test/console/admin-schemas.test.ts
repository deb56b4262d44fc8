import { Ajv } from 'ajv'
import { expect, test } from 'vitest'
import { ADMIN_CALLS } from '../../src/console/api-reference/admin-api.ts'
import { confirmationsBody, lookupsBody } from '../../src/console/key-service/api.ts'
import { usageReportBody } from '../../src/console/usage/receive-report.ts'

const ofCalls = ADMIN_CALLS.flatMap(({ id, query, body }) => [
  ...(query === null ? [] : [[`query of ${id}`, query] as const]),
  ...(body === null ? [] : [[`body of ${id}`, body] as const]),
])
const requests = [...ofCalls, ...Object.entries({ lookupsBody, confirmationsBody, usageReportBody })]

/** A console does not check its schemas when it starts. */
test.each(requests)('%s is a valid JSON Schema', (_name, schema) => {
  const ajv = new Ajv()
  expect([ajv.validateSchema(schema), ajv.errorsText()]).toEqual([true, 'No errors'])
})

test('the check finds a mistake', () => {
  expect(new Ajv().validateSchema({ type: 'text' })).toBe(false)
})
