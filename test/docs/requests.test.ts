import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { DEFAULT_ROUTES } from '../../src/config/schema/route-schema.ts'
import { DENIAL_REASONS, denialRow } from '../../src/domain/denial.ts'
import { tableRows } from './table-rows.ts'

/** Of the section of a page of docs/ that begins with this heading or sentence. */
function rowsAfter(name: string, before: string): string[][] {
  const page = readFileSync(new URL(`../../docs/${name}.md`, import.meta.url), 'utf8')
  return tableRows(page.split(before)[1]?.split(/^#/m)[0] ?? '')
}

test('the request lifecycle of docs/concepts.md has every answer that its checks give, and no other', () => {
  const answers = rowsAfter('concepts', '## Request lifecycle').map(cells => cells.at(-1) ?? '')
  const documented = answers.flatMap(answer => answer.match(/\b[45]\d\d\b/g) ?? [])
  const given = DENIAL_REASONS.map(denialRow).filter(
    ({ countedAs, responsible, code }) =>
      countedAs === 'decision' ||
      (countedAs === 'rejected' && responsible === 'client' && code !== 'overloaded'),
  )
  expect([...new Set(documented)].toSorted()).toEqual(
    [...new Set(given.map(({ status }) => String(status)))].toSorted(),
  )
  const named = answers.flatMap(answer => [...answer.matchAll(/(\d+) `(\w+)`/g)].map(([text]) => text))
  const pairs = given.map(({ status, code }) => `${status} \`${code}\``)
  expect(named.filter(pair => !pairs.includes(pair))).toEqual([])
  expect(named.length).toBeGreaterThan(1)
})

test('docs/routes-and-scopes.md has the default routes, as they are configured', () => {
  const documented = rowsAfter('routes-and-scopes', 'These are the defaults:')
  const configured = Object.entries(DEFAULT_ROUTES).map(([name, route]) => [
    `\`${name}\``,
    `\`${route.path}\``,
    route.scope === undefined ? 'any valid key' : `\`${route.scope}\``,
    Object.entries(route.query ?? {})
      .map(describeParameter)
      .join(', ') || 'none',
    route.answeredBy === 'gateway' ? 'gateway: what this key is' : 'upstream',
  ])
  expect(documented).toEqual(configured)
})

type Parameter = NonNullable<(typeof DEFAULT_ROUTES)[string]['query']>[string]

function describeParameter([name, rule]: readonly [string, Parameter]): string {
  switch (rule.type) {
    case 'integer':
      return `\`${name}\`: ${rule.minimum} to ${rule.maximum}`
    case 'token':
      return `\`${name}\`: at most ${rule.maxLength} characters`
    case 'choice':
      return `\`${name}\`: ${rule.values.join(', ')}`
  }
}
