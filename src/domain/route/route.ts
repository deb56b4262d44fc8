import { isWorkspaceId } from '../key/key-record.ts'

/** A route as it is configured; `path` and `upstreamPath` are templates such as `/a/{workspaceId}/b`. */
export interface RouteConfig {
  readonly name: string
  readonly path: string
  /** Which side responds: the gateway, with a description of the key, or (default) the upstream. */
  readonly answeredBy?: 'gateway' | 'upstream' | undefined
  /** The scope that a key needs; undefined for a route open to every usable key. */
  readonly scope?: string | undefined
  /** The path at the upstream, if it differs: a template with the same parameters. */
  readonly upstreamPath?: string | undefined
  readonly query?: Readonly<Record<string, QueryRule>> | undefined
  /** Whether requests by keys of one workspace with the same scopes may share an upstream response. */
  readonly coalesce?: boolean | undefined
}

export type QueryRule =
  | { readonly type: 'integer'; readonly minimum: number; readonly maximum: number }
  /** 1 to `maxLength` unreserved characters (RFC 3986, section 2.3). */
  | { readonly type: 'token'; readonly maxLength: number }
  | { readonly type: 'choice'; readonly values: readonly string[] }

type Segment = { readonly literal: string } | { readonly parameter: string }

export interface Route {
  readonly name: string
  readonly scope: string | null
  readonly answeredBy: 'gateway' | 'upstream'
  readonly segments: readonly Segment[]
  readonly upstreamSegments: readonly Segment[]
  readonly query: ReadonlyMap<string, QueryRule>
  readonly isCoalesced: boolean
}

/** A route and the raw segments that its parameters matched. The workspace segment is untrusted: only compare it. */
export interface RouteMatch {
  readonly route: Route
  readonly parameters: ReadonlyMap<string, string>
}

export const WORKSPACE_PARAMETER = 'workspaceId'

/** @returns routes in the order in which they are matched: literal segments before parameters */
export function compileRoutes(configs: readonly RouteConfig[]): Route[] {
  return configs.map(compileRoute).sort((a, b) => (specificity(a) < specificity(b) ? -1 : 1))
}

/**
 * Matches whole segments, byte for byte.
 * @param path the raw request target up to the first `?`, not decoded
 * @returns null if no route matches
 */
export function matchRoute(routes: readonly Route[], path: string): RouteMatch | null {
  if (!path.startsWith('/') || isAmbiguousPath(path)) return null
  for (const route of routes) {
    const parameters = matchSegments(route.segments, path)
    if (parameters !== null) return { route, parameters }
  }
  return null
}

/**
 * The path at the upstream, built from the route's template and the key's own workspace. From the request it takes only
 * parameters that `matchRoute` has checked for unreserved characters.
 */
export function buildUpstreamPath(match: RouteMatch, workspaceId: string): string {
  let path = ''
  for (const segment of match.route.upstreamSegments) {
    path += `/${'literal' in segment ? segment.literal : segmentText(segment.parameter, match, workspaceId)}`
  }
  return path
}

function segmentText(parameter: string, match: RouteMatch, workspaceId: string): string {
  if (parameter === WORKSPACE_PARAMETER) return workspaceId
  const value = match.parameters.get(parameter)
  if (value === undefined) throw new Error(`Route ${match.route.name} has no parameter ${parameter}`)
  return value
}

/** Compares segment by segment, each with the slash before it. @returns null if the path does not match */
function matchSegments(pattern: readonly Segment[], path: string): ReadonlyMap<string, string> | null {
  let parameters: Map<string, string> | null = null
  let at = 0
  for (const expected of pattern) {
    if (path[at] !== '/') return null
    const next = path.indexOf('/', at + 1)
    const end = next < 0 ? path.length : next
    if ('literal' in expected) {
      if (end - at - 1 !== expected.literal.length || !path.startsWith(expected.literal, at + 1)) return null
    } else {
      const actual = path.slice(at + 1, end)
      // `authorize` compares the workspace segment later; other segments are copied, so they must be unreserved.
      if (expected.parameter !== WORKSPACE_PARAMETER && !isWorkspaceId(actual)) return null
      parameters ??= new Map<string, string>()
      parameters.set(expected.parameter, actual)
    }
    at = end
  }
  return at === path.length ? (parameters ?? NO_PARAMETERS) : null
}

const NO_PARAMETERS: ReadonlyMap<string, string> = new Map()

function compileRoute(config: RouteConfig): Route {
  const segments = parseTemplate(config.path)
  return {
    name: config.name,
    scope: config.scope ?? null,
    answeredBy: config.answeredBy ?? 'upstream',
    segments,
    upstreamSegments: config.upstreamPath === undefined ? segments : parseTemplate(config.upstreamPath),
    query: new Map(Object.entries(config.query ?? {})),
    isCoalesced: config.coalesce === true,
  }
}

/** @param template `/a/{b}/c`; its form is checked when settings are loaded */
export function parseTemplate(template: string): Segment[] {
  return template
    .slice(1)
    .split('/')
    .map(text =>
      text.startsWith('{') && text.endsWith('}') ? { parameter: text.slice(1, -1) } : { literal: text },
    )
}

function specificity(route: Route): string {
  return route.segments.map(segment => ('literal' in segment ? '0' : '1')).join('')
}

/** Backslash, `;`, `#`, control characters, empty segments (also from a trailing slash). */
const AMBIGUOUS = /[\\;#\u0000-\u001f\u007f]|\/\/|.\/$/
/** Characters that must not be percent-encoded: once decoded, they split or end a segment. */
const SEPARATOR = /[/\\\u0000-\u001f\u007f]/
const DOT_SEGMENT = /\/\.{1,2}(?:\/|$)/

/**
 * Whether a server on the way might read the path as another path: encoded slash, backslash, dot segments in any
 * encoding, empty segments, `;`, `#`, control characters. Finds them encoded any number of times.
 */
export function isAmbiguousPath(path: string): boolean {
  if (AMBIGUOUS.test(path) || DOT_SEGMENT.test(path)) return true
  if (!path.includes('%')) return false
  const decoded = decodeFully(path)
  return decoded === null || DOT_SEGMENT.test(decoded)
}

/**
 * Decodes every percent escape, nested ones included, in one pass: an escape is complete with its last digit.
 * @returns null if an escape encodes a separator
 */
function decodeFully(path: string): string | null {
  const decoded: string[] = []
  for (const character of path) {
    decoded.push(character)
    while (isEscape(decoded)) {
      const [, high = '', low = ''] = decoded.splice(-3)
      const escaped = String.fromCharCode(Number.parseInt(high + low, 16))
      if (SEPARATOR.test(escaped)) return null
      decoded.push(escaped)
    }
  }
  return decoded.join('')
}

function isEscape(text: readonly string[]): boolean {
  return text.at(-3) === '%' && isHexDigit(text.at(-2)) && isHexDigit(text.at(-1))
}

function isHexDigit(character: string | undefined): boolean {
  return character !== undefined && /^[0-9a-f]$/i.test(character)
}

type ParsedQuery =
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
