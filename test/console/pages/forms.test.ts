import { describe, expect, it } from 'vitest'
import { checkEditForm, readEditForm } from '../../../src/console/keys/edit-page.ts'
import { checkIssueForm, NEW_ISSUE_FORM, readIssueForm } from '../../../src/console/keys/issue-page.ts'
import { checkRotateForm, NEW_ROTATE_FORM, readRotateForm } from '../../../src/console/keys/rotate-page.ts'
import { eachText } from '../../../src/domain/key/key-texts.ts'

const NOW = Date.parse('2026-11-21T09:00:00Z')
const KNOWN = ['files:read', 'workspace:read']
const FILLED = { name: 'build server', scopes: 'files:read', expiry: '90', date: '' }

const check = (change: object) => checkIssueForm(readIssueForm({ ...FILLED, ...change }), KNOWN, NOW)
const problemsOf = (change: object) => {
  const checked = check(change)
  return checked.ok ? {} : Object.fromEntries(checked.problems)
}

describe('the form for issuing a key', () => {
  it('starts with 90 days and nothing else selected', () => {
    expect(NEW_ISSUE_FORM).toEqual({
      name: '',
      ...eachText(() => ''),
      scopes: [],
      allowedCidrs: '',
      plan: '',
      expiry: '90',
      date: '',
    })
  })

  it.each(['7', '30', '90', '180', '365'])('asks for %s days', expiry => {
    const own = {
      name: 'build server',
      ...eachText(() => ''),
      scopes: ['files:read'],
      allowedCidrs: [],
      plan: '',
    }
    const request = { ...own, expiresInDays: Number(expiry) }
    expect(check({ expiry })).toEqual({ ok: true, request })
  })

  it('asks for a day, until it ends', () => {
    expect(check({ expiry: 'date', date: '2027-01-31' })).toMatchObject({
      request: { expiresAt: '2027-01-31T23:59:59Z' },
    })
  })

  it('ignores spaces around a day', () => {
    expect(check({ expiry: 'date', date: ' 2027-01-31 ' })).toMatchObject({
      request: { expiresAt: '2027-01-31T23:59:59Z' },
    })
    expect(check({ expiry: '90', date: ' ' })).toMatchObject({ ok: true })
  })

  it('takes addresses one a line, or separated by spaces or commas', () => {
    const allowedCidrs = '192.0.2.1\r\n 2001:db8::/32, 198.51.100.0/24\r\n'
    expect(check({ allowedCidrs })).toMatchObject({
      request: { allowedCidrs: ['192.0.2.1', '2001:db8::/32', '198.51.100.0/24'] },
    })
  })

  it('trims spaces around a name', () => {
    expect(check({ name: '  build server ' })).toMatchObject({ request: { name: 'build server' } })
  })

  it.each([
    ['nothing at all', { name: '', scopes: undefined, expiry: '' }, ['name', 'scopes', 'expiry']],
    ['no name', { name: ' ' }, ['name']],
    ['a name that is too long', { name: 'n'.repeat(101) }, ['name']],
    ['a name in two lines', { name: 'a\nb' }, ['name']],
    ['no scope', { scopes: undefined }, ['scopes']],
    ['an unknown scope', { scopes: ['files:read', 'files:write'] }, ['scopes']],
    ['an expiry that is not offered', { expiry: '5000' }, ['expiry']],
    ['a date that is missing', { expiry: 'date' }, ['date']],
    ['today', { expiry: 'date', date: '2026-11-21' }, ['date']],
    ['a day that is too far off', { expiry: 'date', date: '2027-11-22' }, ['date']],
    ['a day that there is not', { expiry: 'date', date: '2027-02-30' }, ['date']],
    ['a date in other words', { expiry: 'date', date: 'tomorrow' }, ['date']],
    ['days and a date', { expiry: '30', date: '2027-01-31' }, ['date']],
  ])('reports the problem beside its field: %s', (_, change, fields) => {
    expect(Object.keys(problemsOf(change))).toEqual(fields)
  })

  it('gets problems that say how to fix them', () => {
    expect(problemsOf({ expiry: 'date', date: '2029-01-01', name: 'n'.repeat(117) })).toEqual({
      name: 'Shorten the name to 100 characters; it has 117',
      date: 'Enter a day from 22 Nov 2026 to 21 Nov 2027, such as 2027-11-21',
    })
  })

  it('accepts every day that the date field offers', () => {
    for (const date of ['2026-11-22', '2027-11-21']) expect(problemsOf({ expiry: 'date', date })).toEqual({})
  })
})

describe('a form that rotates a key', () => {
  const rotate = (change: object) =>
    checkRotateForm(readRotateForm({ overlap: '3600', expiry: '30', date: '', ...change }), NOW)

  it('begins with a day of overlap and 90 days', () => {
    expect(NEW_ROTATE_FORM).toEqual({ overlap: '86400', expiry: '90', date: '' })
  })

  it('asks for an overlap and an expiry', () => {
    expect(rotate({})).toEqual({ ok: true, request: { overlapSeconds: 3600, expiresInDays: 30 } })
    expect(rotate({ overlap: '0' })).toMatchObject({ request: { overlapSeconds: 0 } })
  })

  it.each([
    ['no overlap', { overlap: undefined }, ['overlap']],
    ['an overlap that is not offered', { overlap: '1' }, ['overlap']],
    ['neither', { overlap: '', expiry: '' }, ['overlap', 'expiry']],
  ])('reports the problem beside its field: %s', (_, change, fields) => {
    const checked = rotate(change)
    expect(checked.ok ? [] : [...checked.problems.keys()]).toEqual(fields)
  })
})

describe('a form that edits a key', () => {
  const DAYS = 'Enter a day from 21 Nov 2026 to 23 Nov 2026, such as 2026-11-23, or none'
  it.each([
    ['keeps the expiry', '2026-11-24T10:00:00Z', '', null],
    ['takes today', '2026-11-24T10:00:00Z', '2026-11-21', null],
    ['takes the day before the last one', '2026-11-24T10:00:00Z', '2026-11-23', null],
    ['takes no day that would be later', '2026-11-24T10:00:00Z', '2026-11-24', DAYS],
    ['takes no day that is over', '2026-11-24T10:00:00Z', '2026-11-20', DAYS],
    ['takes today for a key that ends tomorrow', '2026-11-22T10:00:00Z', '2026-11-21', null],
    [
      'offers no day for a key that ends today',
      '2026-11-21T23:59:58Z',
      '2026-11-21',
      'Clear this date: the key expires within a day',
    ],
  ])('%s', (_, expiresAt, date, problem) => {
    const form = readEditForm({ name: 'build server', date, version: '1' })
    const checked = checkEditForm(form, { expiresAtMs: Date.parse(expiresAt) }, NOW)
    expect(checked.ok ? null : [...checked.problems]).toEqual(problem === null ? null : [['date', problem]])
    if (checked.ok) expect(checked.request.expiresAt).toBe(date === '' ? undefined : `${date}T23:59:59Z`)
  })
})
