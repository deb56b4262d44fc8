import { Ajv } from 'ajv'
import { expect, test } from 'vitest'
import * as schemas from '../../src/control/admin-api/admin-schemas.ts'

const { EXPECTED: _, ...requests } = schemas

/** A console does not check its schemas when it starts. */
test.each(Object.entries(requests))('%s is a valid JSON Schema', (_name, schema) => {
  const ajv = new Ajv()
  expect([ajv.validateSchema(schema), ajv.errorsText()]).toEqual([true, 'No errors'])
})

test('the check finds a mistake', () => {
  expect(new Ajv().validateSchema({ type: 'text' })).toBe(false)
})
