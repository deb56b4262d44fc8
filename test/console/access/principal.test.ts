import { describe, expect, test } from 'vitest'
import {
  type AdminToken,
  may,
  mayGrant,
  PERMISSIONS,
  type Permission,
  type Person,
  type Principal,
  principalActor,
} from '../../../src/console/platform/access/principal.ts'

const ada: Person = {
  subject: 'ada',
  name: 'Ada',
  workspaces: ['ws_1'],
  administrator: false,
  role: 'manager',
}
const person = (more: Partial<Person> = {}): Principal => ({ kind: 'person', person: { ...ada, ...more } })
const token = (permissions: readonly Permission[], more: Partial<AdminToken> = {}): Principal => ({
  kind: 'token',
  token: {
    id: 'tok_1',
    name: 'ci',
    hint: 'pat_…abcd',
    permissions,
    workspaces: null,
    createdAtMs: 0,
    createdBy: 'admin-token',
    expiresAtMs: 1000,
    revokedAtMs: null,
    lastUsedAtMs: null,
    ...more,
  },
})
const operator: Principal = { kind: 'operator' }
const rights = (principal: Principal, workspaceId: string | null) =>
  PERMISSIONS.filter(permission => may(principal, permission, workspaceId))

describe('who may do what, where', () => {
  test.each<[string, Principal, string | null, readonly string[]]>([
    ['the admin token', operator, null, PERMISSIONS],
    ['a manager', person(), 'ws_1', ['keys:read', 'keys:write', 'audit:read']],
    ['a viewer', person({ role: 'viewer' }), 'ws_1', ['keys:read', 'audit:read']],
    ['a manager elsewhere', person(), 'ws_2', []],
    ['a manager in a workspace with a similar name', person(), 'ws_10', []],
    ['a manager in all workspaces', person(), null, []],
    ['an administrator', person({ administrator: true, workspaces: [] }), null, PERMISSIONS],
    [
      'an administrator with the role viewer',
      person({ administrator: true, role: 'viewer' }),
      'ws_9',
      PERMISSIONS,
    ],
    ['a token with keys:write', token(['keys:write']), null, ['keys:read', 'keys:write']],
    ['a token with keys:read', token(['keys:read']), 'ws_9', ['keys:read']],
    ['a token of one workspace', token(['audit:read'], { workspaces: ['ws_1'] }), 'ws_1', ['audit:read']],
    ['a token of one workspace elsewhere', token(['audit:read'], { workspaces: ['ws_1'] }), 'ws_2', []],
    ['a token of one workspace in all', token(['audit:read'], { workspaces: ['ws_1'] }), null, []],
  ])('%s', (_, principal, workspaceId, expected) => {
    expect(rights(principal, workspaceId)).toEqual(expected)
  })
})

describe('no caller can make a token with more rights than its own', () => {
  const maker = token(['keys:write', 'tokens:write'], { workspaces: ['ws_1', 'ws_2'] })
  const grant = (
    permissions: readonly Permission[],
    workspaces: readonly string[] | null,
    expiresAtMs = 1000,
  ) => ({
    permissions,
    workspaces,
    expiresAtMs,
  })
  test.each<[string, ReturnType<typeof grant>, boolean]>([
    ['the same', grant(['keys:write', 'tokens:write'], ['ws_1', 'ws_2']), true],
    ['less', grant(['keys:read'], ['ws_2']), true],
    ['another permission', grant(['keys:read', 'audit:read'], ['ws_1']), false],
    ['another workspace', grant(['keys:read'], ['ws_1', 'ws_3']), false],
    ['all workspaces', grant(['keys:read'], null), false],
    ['a later expiry', grant(['keys:read'], ['ws_1'], 1001), false],
  ])('%s', (_, wanted, expected) => {
    expect(mayGrant(maker, wanted)).toBe(expected)
    expect(mayGrant(operator, wanted)).toBe(true)
    expect(mayGrant(person({ administrator: true }), wanted)).toBe(true)
    expect(mayGrant(person(), grant(['tokens:write'], ['ws_1']))).toBe(false)
  })
})

test('no principal has the actor of another', () => {
  const principals = [
    operator,
    token([]),
    person(),
    person({ subject: 'admin-token' }),
    person({ subject: 'token:tok_1' }),
  ]
  expect(new Set(principals.map(principalActor)).size).toBe(principals.length)
})
