import { describe, expect, test } from 'vitest'
import { type EditRequest, planEdit } from '../../../src/domain/key/key-life.ts'
import type { KeyRecord } from '../../../src/domain/key/key-record.ts'
import { NOW_MS, revoked, someKey } from '../../support/stored-keys.ts'

const DAY_MS = 86_400_000
const context = { keyPrefix: 'wsk_', knownPlans: ['business', 'free'], nowMs: NOW_MS }
const { record } = someKey({
  description: 'nightly',
  allowedCidrs: ['192.0.2.0/24'],
  plan: 'free',
  version: 3,
})
const plan = (request: EditRequest, of: KeyRecord = record) => planEdit(of, request, context)
const at = (ms: number) => new Date(NOW_MS + ms).toISOString()

describe('an edit', () => {
  test.each<[string, EditRequest, Partial<KeyRecord>]>([
    ['a name', { name: 'importer' }, { name: 'importer' }],
    ['a description', { description: '500: '.repeat(100) }, { description: '500: '.repeat(100) }],
    ['no description', { description: null }, { description: null }],
    ['an empty description, which is none', { description: '' }, { description: null }],
    ['an earlier expiry', { expiresAt: at(1) }, { expiresAtMs: NOW_MS + 1 }],
    ['networks', { allowedCidrs: ['::1', '10.1.1.1/8'] }, { allowedCidrs: ['10.0.0.0/8', '::1/128'] }],
    ['no networks', { allowedCidrs: [] }, { allowedCidrs: [] }],
    ['null for networks, which is none', { allowedCidrs: null }, { allowedCidrs: [] }],
    ['the plan', { plan: 'business' }, { plan: 'business' }],
    ['no plan', { plan: null }, { plan: null }],
    ['an empty plan, which is none', { plan: '' }, { plan: null }],
    ['several fields', { name: 'a', description: 'b' }, { name: 'a', description: 'b' }],
  ])('with %s changes nothing else', (_, request, changes) => {
    expect(plan(request)).toEqual({
      kind: 'planned',
      record: { ...record, ...changes, version: 4 },
      changed: Object.keys(changes),
    })
  })

  test.each<[string, EditRequest]>([
    ['nothing', {}],
    ['what the key has', { name: record.name, description: 'nightly', expiresAt: at(90 * DAY_MS) }],
    ['the same networks in another form', { allowedCidrs: ['192.0.2.77/24'] }],
  ])('with %s is no new version', (_, request) => {
    expect(plan(request)).toEqual({ kind: 'planned', record, changed: [] })
  })

  test('tells no description from the description "null"', () => {
    const { record: without } = someKey()
    expect(plan({ description: 'null' }, without)).toMatchObject({ changed: ['description'] })
  })

  test.each<[string, EditRequest]>([
    ['name', { name: '' }],
    ['name', { name: 'a\nb' }],
    ['name', { name: `wsk_${'0Az'.repeat(18)}` }],
    ['description', { description: 'x'.repeat(501) }],
    ['description', { description: 'two\nlines' }],
    ['description', { description: `is wsk_${'0Az'.repeat(18)}` }],
    ['expiresAt', { expiresAt: at(0) }],
    ['expiresAt', { expiresAt: at(-1) }],
    ['expiresAt', { expiresAt: at(90 * DAY_MS + 1) }],
    ['expiresAt', { expiresAt: 'tomorrow' }],
    ['allowedCidrs', { allowedCidrs: ['10.0.0.0/33'] }],
    ['plan', { plan: 'Business' }],
    ['plan', { plan: 'a'.repeat(33) }],
    ['allowedCidrs', { allowedCidrs: Array.from({ length: 33 }, (_, index) => `10.0.0.${index}`) }],
  ])('is refused by the name of the field %s: %j', (field, request) => {
    expect(plan(request)).toMatchObject({ kind: 'invalid', field })
  })

  test.each([
    ['revoked', revoked(someKey()).record],
    ['expired', someKey({ expiresAtMs: NOW_MS }).record],
  ])('of a key that is %s is refused: that is final', (state, ended) => {
    expect(plan({ name: 'x' }, ended)).toEqual({ kind: 'final', state })
  })

  test.each([
    ['suspended', someKey({ suspendedAtMs: NOW_MS - 1 }).record],
    ['retiring', someKey({ replacedBy: 'key_next' }).record],
  ])('of a key that is %s leaves it so', (_, of) => {
    expect(plan({ name: 'x' }, of)).toMatchObject({ record: { ...of, name: 'x', version: 2 } })
  })
})
