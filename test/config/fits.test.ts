import fc from 'fast-check'
import { expect, it } from 'vitest'
import { faultsInWords } from '../../src/config/check-settings.ts'
import { fits } from '../../src/config/fits.ts'
import { configSchema } from '../../src/config/settings.ts'
import { configOf } from './examples.ts'

const { routes, ...others } = configOf({ environment: {} })
/** As the schema sees them: routes are still by name. */
const DEFAULTS: object = {
  ...others,
  routes: Object.fromEntries(routes.map(({ name, ...route }) => [name, route])),
}
const PLACES = placesIn(DEFAULTS)
const NEARLY = [
  null,
  true,
  0,
  -1,
  1.5,
  1e12,
  '',
  ' ',
  'é',
  '👪',
  'a',
  'ws_1',
  'x'.repeat(2000),
  [],
  {},
  [''],
  ['a', 1],
]
const values = fc.oneof(
  fc.constantFrom(
    ...NEARLY,
    'http://a',
    'redis://a',
    '10.0.0.0/8',
    'a:1',
    '/a/{workspaceId}',
    'upstream',
    'key',
  ),
  fc.integer(),
  fc.double(),
  fc.string({ unit: 'grapheme' }),
  fc.jsonValue(),
  fc.constantFrom(...PLACES.map(place => at(DEFAULTS, place))),
)
interface Change {
  readonly place: readonly string[]
  readonly name: string | null
  /** Undefined takes away what is there. */
  readonly value: unknown
}
const change: fc.Arbitrary<Change> = fc.record({
  place: fc.constantFrom(...PLACES),
  name: fc.option(fc.constantFrom('url', 'file', 'scope', '__proto__', 'toString', 'x', 'X-A'), { freq: 3 }),
  value: fc.option(values, { freq: 6, nil: undefined }),
})

function placesIn(value: unknown, place: readonly string[] = []): string[][] {
  if (typeof value !== 'object' || value === null) return [[...place]]
  return [[...place], ...Object.entries(value).flatMap(([name, child]) => placesIn(child, [...place, name]))]
}

function at(root: unknown, place: readonly string[]): unknown {
  return place.reduce<unknown>((value, name) => Reflect.get(Object(value), name), root)
}

/** The defaults with some values replaced, taken away or added. */
function changed(changes: readonly Change[]): object {
  const root = structuredClone(DEFAULTS)
  for (const { place, name, value } of changes) {
    const names = name === null ? place : [...place, name]
    const parent = at(root, names.slice(0, -1))
    if (typeof parent !== 'object' || parent === null || names.length === 0) continue
    if (value === undefined) Reflect.deleteProperty(parent, names.at(-1) ?? '')
    else
      Object.defineProperty(parent, names.at(-1) ?? '', {
        // Part of the defaults as well: what comes later must not change those.
        value: structuredClone(value),
        enumerable: true,
        configurable: true,
        writable: true,
      })
  }
  return root
}

it('what is taken without asking the library has no fault that the library would find', () => {
  let taken = 0
  fc.assert(
    fc.property(fc.array(change, { maxLength: 3 }), changes => {
      const candidate = changed(changes)
      if (!fits(configSchema, candidate)) return
      taken++
      expect(faultsInWords(configSchema, candidate)).toEqual([])
    }),
    { numRuns: 5000 },
  )
  expect(taken).toBeGreaterThan(100)
})

it('the defaults are taken without asking it', () => {
  expect(fits(configSchema, DEFAULTS)).toBe(true)
})

it.each([
  [{ type: 'string', unheardOf: 1 }],
  [{ type: 'unheardOf' }],
  [{ type: 'object', additionalProperties: {} }],
  [{}],
  [true],
])('a schema that says more than is known here is never taken to be met: %j', schema => {
  expect(fits(schema, 'a')).toBe(false)
  expect(fits(schema, {})).toBe(false)
})
