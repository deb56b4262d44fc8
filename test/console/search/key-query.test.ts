import { expect, test } from 'vitest'
import {
  decodeCursor,
  encodeCursor,
  type KeyQueryText,
  parseKeyQuery,
  parseOrder,
} from '../../../src/console/keys/search/key-query.ts'

const POSITION = { value: 7, id: 'key_01JD0000000000000000000000' }

const NAMED = parseOrder('name') ?? undefined
const TIMED = parseOrder('-createdAt') ?? undefined

test.each<[typeof NAMED, unknown, boolean]>([
  [NAMED, ['name', 'importer', 'key_1'], true],
  [NAMED, ['-name', 'importer', 'key_1'], false],
  [NAMED, ['name', 7, 'key_1'], false],
  [NAMED, ['name', 'importer', 7], false],
  [NAMED, ['name', 'a\0', 'key_1'], false],
  [NAMED, ['name', 'importer', 'key_\0'], false],
  [NAMED, ['name', 'importer'], false],
  [NAMED, ['name', 'importer', 'key_1', 0], false],
  [NAMED, { 0: 'name', 1: 'importer', 2: 'key_1', length: 3 }, false],
  [NAMED, null, false],
  [TIMED, ['-createdAt', 7, 'key_1'], true],
  [TIMED, ['createdAt', 7, 'key_1'], false],
  [TIMED, ['-createdAt', '7', 'key_1'], false],
  [TIMED, ['-createdAt', 7.5, 'key_1'], false],
  [TIMED, ['-createdAt', 2 ** 53, 'key_1'], false],
  [TIMED, ['-createdAt', 7, 'key_\0'], false],
])('a cursor is of its order and complete: %j %j: %s', (order, parts, isCursor) => {
  if (order === undefined) throw new Error('No order')
  const [, value, id] = Array.isArray(parts) ? parts : []
  const text = Buffer.from(JSON.stringify(parts)).toString('base64url')
  expect(decodeCursor(order, text)).toEqual(isCursor ? { value, id } : null)
})

test('no parameters ask for the newest 50 keys', () => {
  expect(parseKeyQuery({})).toEqual({
    ok: true,
    query: {
      workspaceIds: null,
      state: null,
      text: null,
      scope: null,
      plan: null,
      expiresBeforeMs: null,
      createdBeforeMs: null,
      lastUsedBeforeMs: null,
      sort: 'createdAt',
      descending: true,
      limit: 50,
      after: null,
    },
  })
})

test('each parameter becomes a condition', () => {
  const parsed = parseKeyQuery({
    workspaceId: 'ws_1',
    state: 'retiring',
    q: '50%',
    plan: 'free',
    scope: 'files:read',
    expiresBefore: '2026-12-01T00:00:00Z',
    createdBefore: '2026-11-01T00:00:00+01:00',
    lastUsedBefore: '2026-10-01T00:00:00.5Z',
    sort: 'expiresAt',
    limit: '200',
    cursor: encodeCursor({ sort: 'expiresAt', descending: false }, POSITION),
  })
  expect(parsed).toEqual({
    ok: true,
    query: {
      workspaceIds: ['ws_1'],
      state: 'retiring',
      text: '50%',
      scope: 'files:read',
      plan: 'free',
      expiresBeforeMs: Date.parse('2026-12-01T00:00:00Z'),
      createdBeforeMs: Date.parse('2026-10-31T23:00:00Z'),
      lastUsedBeforeMs: Date.parse('2026-10-01T00:00:00.500Z'),
      sort: 'expiresAt',
      descending: false,
      limit: 200,
      after: POSITION,
    },
  })
})

const cursorOf = (parts: unknown) => Buffer.from(JSON.stringify(parts)).toString('base64url')

test.each<[keyof KeyQueryText, string]>([
  ['workspaceId', ''],
  ['workspaceId', 'a/b'],
  ['state', 'expiring'],
  ['state', ''],
  ['q', ''],
  ['q', 'n'.repeat(101)],
  ['q', 'a\nb'],
  ['q', 'a\u0000'],
  ['q', '\ud800'],
  ['scope', 'a b'],
  ['expiresBefore', '2026-02-30T00:00:00Z'],
  ['createdBefore', '1700000000000'],
  ['lastUsedBefore', ''],
  ['sort', 'id'],
  ['sort', '--name'],
  ['sort', ''],
  ['limit', '0'],
  ['limit', '201'],
  ['limit', '1e2'],
  ['limit', '+1'],
  ['cursor', ''],
  ['cursor', 'x'],
  ['cursor', cursorOf(null)],
  ['cursor', cursorOf(['-createdAt', 7])],
  ['cursor', cursorOf(['createdAt', 7, 'key_1'])],
  ['cursor', cursorOf(['-createdAt', '7', 'key_1'])],
  ['cursor', cursorOf(['-createdAt', 0.5, 'key_1'])],
  ['cursor', cursorOf(['-createdAt', 7, 'key_\u0000'])],
  ['cursor', cursorOf(['-createdAt', 7, 'key_1', 8])],
])('%s=%j is refused by its name', (field, value) => {
  expect(parseKeyQuery({ [field]: value })).toMatchObject({ ok: false, field })
})

test('a cursor of a list by name holds a name', () => {
  const position = { value: 'büro 😀', id: 'key_1' }
  const cursor = encodeCursor({ sort: 'name', descending: true }, position)
  expect(cursor).toMatch(/^[A-Za-z0-9_-]+$/)
  expect(parseKeyQuery({ sort: '-name', cursor })).toMatchObject({ ok: true, query: { after: position } })
  expect(parseKeyQuery({ sort: 'name', cursor })).toMatchObject({ ok: false, field: 'cursor' })
})
