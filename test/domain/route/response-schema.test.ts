import { expect, test } from 'vitest'
import { embedSchema, isInside, referencesIn } from '../../../src/domain/route/response-schema.ts'

const SCHEMA = {
  properties: { list: { items: [{ $ref: '#/$defs/a~1b' }, null] }, $ref: { type: 'string' } },
  $defs: { 'a/b': { const: { $ref: '#/in-data' } }, 'c~d': true },
}

test('every reference of a schema is found, and none in its data or in the name of a property', () => {
  expect(referencesIn(SCHEMA)).toEqual(['#/$defs/a~1b'])
})

test.each([
  ['#', true],
  ['#/$defs', true],
  ['#/$defs/a~1b', true],
  ['#/$defs/c~0d', true],
  ['#/$defs/a~1b/const/$ref', true],
  ['#/$defs/missing', false],
  ['#/$defs/toString', false],
  ['#/properties/$ref/type/length', false],
  ['#/$defs/c~0d/deeper', false],
  ['#/properties/list/items/1/deeper', false],
  ['#anchor', false],
  ['other.json#/', false],
  ['/$defs', false],
])('the reference %s leads into the schema: %s', (reference, expected) => {
  expect(isInside(SCHEMA, reference)).toBe(expected)
})

test('an embedded schema refers to its new place', () => {
  expect(embedSchema({ $schema: 'x', $id: 'y', items: { $ref: '#/$defs/a' } }, '#/components/z')).toEqual({
    items: { $ref: '#/components/z/$defs/a' },
  })
})

test('a list of schemas stays a list where it is embedded', () => {
  const schema = { $id: 'x', oneOf: [{ $ref: '#/$defs/a' }, true], $defs: { a: {} } }
  expect(embedSchema(schema, '#/here')).toEqual({
    oneOf: [{ $ref: '#/here/$defs/a' }, true],
    $defs: { a: {} },
  })
})

test.each(['const', 'enum', 'default', 'examples', 'example'])('what stands in %s is data', keyword => {
  const schema = { [keyword]: [{ $ref: '#/a' }] }
  expect(referencesIn(schema)).toEqual([])
})
