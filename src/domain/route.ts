import { isAmbiguousPath } from './ambiguous-path.ts'
import { isWorkspaceId } from './key/key-record.ts'

/** A route as it is configured; `path` and `upstreamPath` are templates such as `/a/{workspaceId}/b`. */
export interface RouteConfig {
  readonly name: string
  readonly path: string
  /** Who answers: the gateway itself (what it knows of the key) or the upstream, which is the default. */
  readonly answeredBy?: 'gateway' | 'upstream' | undefined
  /** The scope that a key needs; none for a route that any usable key may ask. */
  readonly scope?: string | undefined
  /** The path at the upstream where it differs; a template over the same parameters. */
  readonly upstreamPath?: string | undefined
  readonly query?: Readonly<Record<string, QueryRule>> | undefined
  /** Whether keys of one workspace with the same scopes may be given one answer of the upstream. */
  readonly shareAnswers?: boolean | undefined
}

export type QueryRule =
  | { readonly type: 'integer'; readonly minimum: number; readonly maximum: number }
  /** 1 to `maxLength` characters that mean themselves in a URL (RFC 3986, section 2.3). */
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

/** A route and the raw segments that its parameters matched. The workspace's is not to be trusted, only compared. */
export interface RouteMatch {
  readonly route: Route
  readonly parameters: ReadonlyMap<string, string>
}

export const WORKSPACE_PARAMETER = 'workspaceId'

/** The order in which routes are tried is the order of this list: literal segments before parameters. */
export function compileRoutes(configs: readonly RouteConfig[]): Route[] {
  return configs.map(compileRoute).sort((a, b) => (specificity(a) < specificity(b) ? -1 : 1))
}

/**
 * @param path the request's target up to the first `?`, as it came, undecoded
 * @returns null where no route has this form: matching is on whole segments, byte for byte
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
 * The upstream's path, made of the route's own text and the key's own workspace; of the request it holds only
 * parameters that `matchRoute` found to be plain.
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

/** Segment by segment, each with the slash before it. @returns null where the path has another form */
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
      // The workspace's segment is compared with the key's own workspace later; any other is copied, so must be plain.
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
    isCoalesced: config.shareAnswers === true,
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
