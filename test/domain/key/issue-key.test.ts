import { describe, expect, test } from 'vitest'
import { BLANK_FIELDS } from '../../../src/domain/key/key-fields.ts'
import { type IssueRequest, planIssue } from '../../../src/domain/key/key-life.ts'

const NOW_MS = Date.parse('2026-11-20T09:00:00Z')
const DAY_MS = 86_400_000
const context = {
  id: 'key_01',
  workspaceId: 'ws_1',
  hint: 'wsk_…abcd',
  keyPrefix: 'wsk_',
  knownPlans: ['business', 'free'],
  workspacePlan: null,
  createdBy: 'admin-token',
  knownScopes: ['workspace:read', 'files:read'],
  nowMs: NOW_MS,
}
const request: IssueRequest = { name: 'build server', scopes: ['workspace:read'] }
const plan = (change: Partial<IssueRequest>) => planIssue({ ...request, ...change }, context)
const at = (ms: number) => new Date(NOW_MS + ms).toISOString()

describe('a new key', () => {
  test('is active, has version 1, and expires after 90 days by default', () => {
    expect(plan({ scopes: ['workspace:read', 'files:read', 'workspace:read'] })).toEqual({
      ok: true,
      value: {
        ...BLANK_FIELDS,
        id: 'key_01',
        workspaceId: 'ws_1',
        name: 'build server',
        scopes: ['files:read', 'workspace:read'],
        hint: 'wsk_…abcd',
        createdAtMs: NOW_MS,
        createdBy: 'admin-token',
        expiresAtMs: NOW_MS + 90 * DAY_MS,
        revokedAtMs: null,
        suspendedAtMs: null,
        rotatedFrom: null,
        replacedBy: null,
        version: 1,
      },
    })
  })

  test.each<[string, Partial<IssueRequest>, number]>([
    ['half a day', { expiresInDays: 0.5 }, DAY_MS / 2],
    ['exactly a minute', { expiresInDays: 1 / 1440 }, 60_000],
    ['exactly 366 days', { expiresInDays: 366 }, 366 * DAY_MS],
    ['an instant', { expiresAt: at(DAY_MS) }, DAY_MS],
    ['an instant with an offset', { expiresAt: '2026-11-21T10:00:00+01:00' }, DAY_MS],
    ['an instant a minute away', { expiresAt: at(60_000) }, 60_000],
    ['an instant 366 days away', { expiresAt: at(366 * DAY_MS) }, 366 * DAY_MS],
    ['a leap day', { expiresAt: '2027-02-28T09:00:00Z' }, 100 * DAY_MS],
  ])('may live for %s', (_, change, lifetimeMs) => {
    const planned = plan(change)
    expect(planned.ok && planned.value.expiresAtMs - NOW_MS).toBe(lifetimeMs)
  })

  test.each<[string, Partial<IssueRequest>, string]>([
    ['an empty name', { name: '' }, 'name'],
    ['a name of 101 characters', { name: 'n'.repeat(101) }, 'name'],
    ['a line break in the name', { name: 'a\nb' }, 'name'],
    ['an unpaired surrogate in the name', { name: 'a\ud800' }, 'name'],
    ['a description of 501 characters', { description: 'd'.repeat(501) }, 'description'],
    ['a line break in the description', { description: 'a\nb' }, 'description'],
    ['a key in the description', { description: `see wsk_${'0Az'.repeat(18)}` }, 'description'],
    ['an invalid network', { allowedCidrs: ['10.0.0.0/33'] }, 'allowedCidrs'],
    ['33 networks', { allowedCidrs: Array(33).fill('10.0.0.1') }, 'allowedCidrs'],
    ['no scope', { scopes: [] }, 'scopes'],
    ['an unknown scope', { scopes: ['files:read', 'files:write'] }, 'scopes'],
    ['a scope in another case', { scopes: ['Files:read'] }, 'scopes'],
    ['a scope named like an inherited property', { scopes: ['constructor'] }, 'scopes'],
    ['both expiries', { expiresInDays: 1, expiresAt: at(DAY_MS) }, 'expiresAt'],
    ['just under a minute', { expiresInDays: 59.999 / 86_400 }, 'expiresInDays'],
    ['over 366 days', { expiresInDays: 366.0001 }, 'expiresInDays'],
    ['a negative time', { expiresInDays: -1 }, 'expiresInDays'],
    ['not a number', { expiresInDays: Number.NaN }, 'expiresInDays'],
    ['an infinite time', { expiresInDays: Number.POSITIVE_INFINITY }, 'expiresInDays'],
    ['an instant in the past', { expiresAt: at(-1) }, 'expiresAt'],
    ['an instant 59 seconds away', { expiresAt: at(59_999) }, 'expiresAt'],
    ['an instant over 366 days away', { expiresAt: at(366 * DAY_MS + 1) }, 'expiresAt'],
    ['a day that does not exist', { expiresAt: '2027-02-30T09:00:00Z' }, 'expiresAt'],
    ['an instant without an offset', { expiresAt: '2026-12-01T09:00:00' }, 'expiresAt'],
    ['a date alone', { expiresAt: '2026-12-01' }, 'expiresAt'],
    ['words', { expiresAt: 'tomorrow' }, 'expiresAt'],
  ])('is rejected with %s, naming the field', (_, change, field) => {
    expect(plan(change)).toMatchObject({ ok: false, field })
  })

  test('may have a description, and networks that its requests must come from', () => {
    const planned = plan({ description: 'for CI', allowedCidrs: ['10.1.1.1/8', '10.0.0.0/8', '::1'] })
    expect(planned).toMatchObject({
      ok: true,
      value: { description: 'for CI', allowedCidrs: ['10.0.0.0/8', '::1/128'] },
    })
  })

  test('may have a name of 100 characters of any script', () => {
    expect(plan({ name: '🔑'.repeat(100) }).ok).toBe(true)
  })
})

test('a name that contains a key or an admin token is rejected: audit log, webhooks and pages show names', () => {
  const key = `wsk_${'0Az'.repeat(18)}`
  const token = key.replace('wsk_', 'pat_')
  const expected = 'a name without an API key or token in it'
  for (const name of [key, `build ${key}`, `${key}1`, `build ${token}`]) {
    expect(plan({ name })).toEqual({ ok: false, field: 'name', expected })
  }
  for (const name of ['wsk_ci', key.slice(0, -1), key.replace('wsk_', 'key_')])
    expect(plan({ name }).ok).toBe(true)
})
