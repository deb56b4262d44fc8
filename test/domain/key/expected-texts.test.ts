import { expect, test } from 'vitest'
import {
  type IssueRequest,
  planIssue,
  planRotation,
  type RotateRequest,
} from '../../../src/domain/key/key-life.ts'
import { mintSecret } from '../../../src/domain/key/secret.ts'
import { exampleRecord, NOW_MS, SIGNING_KEY } from '../examples.ts'

const KEY = mintSecret('wsk_', Buffer.alloc(32, 7), SIGNING_KEY).reveal()
const SCOPES = ['workspace:read', 'files:read']
const context = {
  id: 'key_01',
  workspaceId: 'ws_1',
  hint: 'wsk_…abcd',
  keyPrefix: 'wsk_',
  knownPlans: ['business', 'free'],
  workspacePlan: null,
  createdBy: 'admin-token',
  knownScopes: SCOPES,
  nowMs: NOW_MS,
}

test.each<[string, Partial<IssueRequest>, string]>([
  ['name', { name: '' }, '1 to 100 characters, none of them a control character'],
  ['description', { description: `a ${KEY}` }, 'a text without an API key or token in it'],
  [
    'description',
    { description: 'a\nb' },
    'null or at most 500 characters, none of them a control character or line break',
  ],
  [
    'allowedCidrs',
    { allowedCidrs: ['office'] },
    'a list of at most 32 IP addresses or CIDRs, such as 192.0.2.0/24 or 2001:db8::/32',
  ],
  ['scopes', { scopes: [] }, 'a list of at least one of files:read, workspace:read'],
  ['expiresAt', { expiresAt: 'soon', expiresInDays: 1 }, 'absent where expiresInDays is given'],
  [
    'expiresAt',
    { expiresAt: 'soon' },
    'an instant such as 2027-02-18T09:00:00Z, from 1 minute to 366 days from now',
  ],
  ['expiresInDays', { expiresInDays: 0 }, 'a number of days, from 1 minute (0.000695) to 366'],
])('a new key whose %s is wrong is rejected with what it must be: %o', (field, change, expected) => {
  const plan = planIssue({ name: 'build server', scopes: SCOPES, ...change }, context)
  expect(plan).toEqual({ ok: false, field, expected })
})

test.each<[string, RotateRequest, string]>([
  ['overlapSeconds', { overlapSeconds: -1 }, 'a number of seconds, from 0 to 2592000 (30 days)'],
  ['expiresInDays', { expiresInDays: 0 }, 'a number of days, from 1 minute (0.000695) to 366'],
])('a rotation whose %s is wrong is rejected with what it must be', (field, request, expected) => {
  const plan = planRotation(exampleRecord(), request, {
    id: 'key_02',
    hint: 'h',
    createdBy: 'ada',
    nowMs: NOW_MS,
  })
  expect(plan).toEqual({ kind: 'invalid', field, expected })
})

test('a rotation may overlap for exactly 30 days', () => {
  const plan = planRotation(
    exampleRecord(),
    { overlapSeconds: 2_592_000 },
    { id: 'key_02', hint: 'h', createdBy: 'ada', nowMs: NOW_MS },
  )
  expect(plan.kind).not.toBe('invalid')
})

test('a key may have 32 networks and 64 scopes', () => {
  const scopes = Array.from({ length: 64 }, (_, index) => `s${index}`)
  const allowedCidrs = Array.from({ length: 32 }, (_, index) => `192.0.2.${index}`)
  const plan = (some: string[]) =>
    planIssue({ name: 'n', scopes: some, allowedCidrs }, { ...context, knownScopes: [...scopes, 's64'] })
  expect(plan(scopes)).toMatchObject({ ok: true })
  expect(plan([...scopes, 's64'])).toMatchObject({ ok: false, field: 'scopes' })
})

test.each([
  'x2027-02-18T09:00:00Z',
  '2027-02-18T09:00:00Zx',
  '2027-02-18T09:00:00Z (x)',
  '(x)2027-02-18T09:00:00Z',
])('the text %j is no instant', expiresAt => {
  expect(planIssue({ name: 'n', scopes: SCOPES, expiresAt }, context)).toMatchObject({
    ok: false,
    field: 'expiresAt',
  })
})
