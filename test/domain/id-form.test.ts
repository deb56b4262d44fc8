import { expect, test } from 'vitest'
import { createIds } from '../../src/console/platform/database/ids.ts'
import { type IdKind, idPattern, isId } from '../../src/domain/id-form.ts'

const KINDS: readonly IdKind[] = ['key', 'audit', 'msg', 'tok']
const idOf = (kind: IdKind) => createIds(kind, size => new Uint8Array(size).fill(200))(1_700_000_000_000)

test.each(KINDS)('an id of the kind %s is recognized as one of this kind and of no other', kind => {
  const id = idOf(kind)
  expect(KINDS.filter(other => isId(other, id))).toEqual([kind])
  expect([`${id}0`, ` ${id}`, id.toLowerCase(), id.slice(0, -1)].filter(text => isId(kind, text))).toEqual([])
})

test.each(KINDS)('the pattern of the document describes an id of the kind %s', kind => {
  const pattern = new RegExp(`^${idPattern(kind)}$`)
  expect(pattern.test(idOf(kind))).toBe(true)
  expect(pattern.test(`x${idOf(kind)}`)).toBe(false)
})
