import { Ajv, type ValidateFunction } from 'ajv'
import fc from 'fast-check'
import type { TSchema } from 'typebox'
import { Format } from 'typebox/format'
import { describe, expect, test } from 'vitest'
import { ADMIN_CALLS } from '../../src/console/api-reference/admin-api.ts'
import { confirmationsBody, lookupsBody } from '../../src/console/key-service/api.ts'
import { requestValidator } from '../../src/console/platform/http/validator.ts'
import { usageReportBody } from '../../src/console/usage/receive-report.ts'
import { parseInstant } from '../../src/domain/form/instant.ts'

const ofCalls = ADMIN_CALLS.flatMap(({ id, query, body }) => [
  ...(query === null ? [] : [[`query of ${id}`, query] as const]),
  ...(body === null ? [] : [[`body of ${id}`, body] as const]),
])
const requests: readonly (readonly [string, TSchema])[] = [
  ...ofCalls,
  ...Object.entries({ lookupsBody, confirmationsBody, usageReportBody }),
]

/** A console does not check its schemas when it starts. */
test.each(requests)('%s is a valid JSON Schema', (_name, schema) => {
  const ajv = new Ajv()
  expect([ajv.validateSchema(schema), ajv.errorsText()]).toEqual([true, 'No errors'])
})

test('the check finds a mistake', () => {
  expect(new Ajv().validateSchema({ type: 'text' })).toBe(false)
})

describe('requests are checked as another library of JSON Schema checks them', () => {
  const format = (text: string) => Format.Test('date-time', text)
  const ajv = new Ajv({ strict: false, formats: { 'date-time': format } })

  test.each(requests)('%s', (_name, schema) => {
    const other: ValidateFunction = ajv.compile(schema)
    const validate = validatorOf(schema)
    const accepted = new Set<boolean>()
    const law = fc.property(sentTo(schema), sent => {
      const isAccepted = validate(sent) === true
      accepted.add(isAccepted)
      expect(isAccepted).toBe(other(sent))
    })
    fc.assert(law, { numRuns: 300, examples: [[{}], [null], [[]]] })
    expect(accepted).toEqual(new Set([true, false]))
  })
})

test.each([
  '2027-02-18T09:00:00Z',
  '2027-02-18T09:00:00.123456789Z',
  '2028-02-29T23:59:59+14:00',
  '2027-02-18T09:00:00.1-11:30',
])('an instant that is read passes the schema: %s', text => {
  expect(parseInstant(text)).not.toBeNull()
  const withInstant = ADMIN_CALLS.flatMap(({ query }) =>
    query !== null && 'from' in query.properties ? [query] : [],
  )
  expect(withInstant).not.toEqual([])
  for (const query of withInstant) {
    expect(validatorOf(query)({ from: text })).toBe(true)
    expect(validatorOf(query)({ from: `${text}x` })).not.toBe(true)
  }
})

test('a request with several mistakes gets an error about a missing field first, and about an unknown one before a wrong one', () => {
  const schema = {
    type: 'object',
    properties: { name: { type: 'string' }, scopes: { type: 'array' } },
    required: ['name', 'scopes'],
    additionalProperties: false,
  } as const
  const first = (sent: unknown) => {
    const result = validatorOf(schema)(sent)
    return typeof result === 'object' && 'error' in result ? Object(result.error)[0] : null
  }
  expect(first({ name: 1, extra: 2 })).toMatchObject({ params: { requiredProperties: ['scopes'] } })
  expect(first({ name: 1, scopes: [], extra: 2 })).toMatchObject({
    params: { additionalProperties: ['extra'] },
  })
  expect(first({ name: 1, scopes: [] })).toMatchObject({ instancePath: '/name', keyword: 'type' })
  expect(first(7)).toMatchObject({ instancePath: '', keyword: 'type' })
})

function validatorOf(schema: TSchema) {
  return requestValidator({ schema, method: 'POST', url: '/', httpPart: 'body' })
}

const ofAnyType = fc.oneof(
  fc.constantFrom(null, true, 0, 1, -1, 1.5, '', '1', '200', '201', 'x', [], {}, [''], ['x'], [1]),
  fc.constantFrom('2027-02-18T09:00:00Z', 'a'.repeat(64), `key_${'0'.repeat(26)}`, [{}], { x: 1 }),
)

/** A value that the schema accepts more often than not. */
function fitting(schema: TSchema): fc.Arbitrary<unknown> {
  const { type, enum: listed, const: only, items, anyOf, properties, pattern } = schema as Schema
  if (listed !== undefined) return fc.constantFrom(...listed)
  if (only !== undefined) return fc.constant(only)
  if (anyOf !== undefined) return fc.oneof(...anyOf.map(fitting))
  if (properties !== undefined) return sentTo(schema)
  if (items !== undefined) return fc.array(fitting(items), { maxLength: 2 })
  if (pattern !== undefined) return fc.stringMatching(new RegExp(pattern))
  if (type === 'integer' || type === 'number') return fc.integer({ min: 0, max: 9 })
  if (type === 'boolean') return fc.boolean()
  if (type === 'string') return fc.constantFrom('', 'x', '2027-02-18T09:00:00Z')
  return ofAnyType
}

interface Schema {
  readonly type?: unknown
  readonly enum?: readonly unknown[]
  readonly const?: unknown
  readonly items?: TSchema
  readonly anyOf?: readonly TSchema[]
  readonly properties?: Readonly<Record<string, TSchema>>
  readonly required?: readonly string[]
  readonly pattern?: string
}

/** Some or all of its fields, at times an unknown one, each with a value that it may or may not have. */
function sentTo(schema: TSchema): fc.Arbitrary<unknown> {
  const { properties = {}, required = [] } = schema as Schema
  const own = Object.entries(properties).map(([name, field]) => {
    return [name, fc.oneof({ weight: 9, arbitrary: fitting(field) }, { weight: 1, arbitrary: ofAnyType })]
  })
  const fields: Record<string, fc.Arbitrary<unknown>> = Object.fromEntries(own)
  const some = fc.record(fields, { requiredKeys: [] })
  return fc.oneof(
    { weight: 6, arbitrary: fc.record(fields, { requiredKeys: required.filter(name => name in fields) }) },
    { weight: 2, arbitrary: some },
    { weight: 1, arbitrary: fc.tuple(some, ofAnyType).map(([known, extra]) => ({ ...known, extra })) },
    { weight: 1, arbitrary: ofAnyType },
  )
}
