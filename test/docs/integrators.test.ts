import { expect, test } from 'vitest'
import { ERROR_MEANINGS } from '../../src/console/api-reference/api-page.ts'
import { DENIAL_REASONS, denialRow } from '../../src/domain/denial.ts'
import { INTEGRATORS_PAGE } from './integrators-page.ts'

const ROWS = /<!-- errors -->([\s\S]*)<!-- \/errors -->/.exec(INTEGRATORS_PAGE)?.[1] ?? ''

test('the table for integrators has every error that the gateway returns, and no other', () => {
  const documented = [...ROWS.matchAll(/^\| ([\d, ]+) \| `(\w+)` \|/gm)].flatMap(([, statuses = '', code]) =>
    statuses.split(', ').map(status => `${status} ${code}`),
  )
  const returned = DENIAL_REASONS.map(reason => `${denialRow(reason).status} ${denialRow(reason).code}`)
  expect(documented.toSorted()).toEqual([...new Set(returned)].toSorted())
})

test('the table says to retry every error that comes with Retry-After', () => {
  const codes = DENIAL_REASONS.filter(reason => denialRow(reason).retryAfterSeconds !== undefined).map(
    reason => denialRow(reason).code,
  )
  expect(codes.length).toBeGreaterThan(3)
  for (const code of codes)
    expect(ROWS).toMatch(new RegExp(`^\\|[^|]*\\| \`${code}\` \\|.*\\| yes \\|$`, 'm'))
})

test('the console says of each error what the table says', () => {
  const rows = [...ROWS.matchAll(/^\| ([\d, ]+) \| `(\w+)` \| (.+) \| (.+) \| [^|]+ \|$/gm)]
  const documented = rows.flatMap(([, statuses = '', code, meaning, advice]) =>
    statuses.split(', ').map(status => [`${status} ${code}`, { meaning, advice }] as const),
  )
  expect(ERROR_MEANINGS).toEqual(Object.fromEntries(documented))
})
