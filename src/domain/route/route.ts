import { isWorkspaceId } from '../key/key-record.ts'
import { isAmbiguousPath } from './ambiguous-path.ts'

/** The form of a route's name, by which requests are counted. */
export const ROUTE_NAME = /^[a-z][a-z0-9-]{0,31}$/

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
export function upstreamPathOf(match: RouteMatch, workspaceId: string): string {
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
