import type { QueryRule, Route } from './route.ts'

export type ParsedQuery =
  /** `upstreamQuery` is rebuilt from the parsed parameters: empty, or with its `?`. */
  { readonly ok: true; readonly upstreamQuery: string } | { readonly ok: false; readonly detail: string }

const WHOLE_NUMBER = /^(?:0|[1-9][0-9]{0,14})$/
const UNRESERVED = /^[A-Za-z0-9._~-]+$/

/**
 * Accepts only parameters of the route, each at most once and valid, and decodes none: rejects every query that an
 * upstream could read in two ways.
 * @param query the part of the target after the first `?`; empty if there is none
 */
export function parseQuery(route: Route, query: string): ParsedQuery {
  if (query === '') return { ok: true, upstreamQuery: '' }
  const seen = new Map<string, string>()
  for (const pair of query.split('&', route.query.size + 2)) {
    const separator = pair.indexOf('=')
    const name = separator < 0 ? pair : pair.slice(0, separator)
    const rule = route.query.get(name)
    if (rule === undefined) return { ok: false, detail: knownParameters(route) }
    if (seen.has(name)) return { ok: false, detail: `${name} may be given once` }
    const value = separator < 0 ? '' : pair.slice(separator + 1)
    if (!isValid(rule, value)) return { ok: false, detail: `${name} must be ${expectation(rule)}` }
    seen.set(name, value)
  }
  return { ok: true, upstreamQuery: `?${[...seen].map(([name, value]) => `${name}=${value}`).join('&')}` }
}

function isValid(rule: QueryRule, value: string): boolean {
  switch (rule.type) {
    case 'integer':
      return WHOLE_NUMBER.test(value) && Number(value) >= rule.minimum && Number(value) <= rule.maximum
    case 'token':
      return value.length <= rule.maxLength && UNRESERVED.test(value)
    case 'choice':
      return rule.values.includes(value)
  }
}

function expectation(rule: QueryRule): string {
  switch (rule.type) {
    case 'integer':
      return `a whole number from ${rule.minimum} to ${rule.maximum}`
    case 'token':
      return `1 to ${rule.maxLength} characters of A-Z, a-z, 0-9 and "-", ".", "_", "~"`
    case 'choice':
      return `one of ${rule.values.join(', ')}`
  }
}

function knownParameters(route: Route): string {
  if (route.query.size === 0) return 'This endpoint takes no query parameters'
  return `This endpoint takes only these query parameters: ${[...route.query.keys()].join(', ')}`
}
