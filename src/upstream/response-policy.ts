import { type Denial, denied } from '../domain/denial.ts'
import { mayReachClient } from '../domain/header-names.ts'
import type { UpstreamHeaders } from './pool/exchange-parties.ts'

/** Which parts of a response reach the client. */
export type PolicyDecision =
  /** The client receives the status, these headers and the body, if there is one. */
  | { readonly kind: 'pass'; readonly headers: Record<string, string>; readonly hasBody: boolean }
  /** The client receives the status and, of the body, only `code` and `error`. */
  | { readonly kind: 'reject'; readonly retryAfter: string | null }
  | Denial

export type ResponsePolicy = (statusCode: number, headers: UpstreamHeaders) => PolicyDecision

const JSON_TYPE = /^application\/(?:[\w.+-]+\+)?json\s*(?:;|$)/i
const DEFAULT_RETRY_AFTER_SECONDS = 5
const CODING = 'content-encoding'
/** Fields with a single value. With two of them, client and gateway could read different ones. */
const SINGLETONS: ReadonlySet<string> = new Set([
  'content-type',
  'content-length',
  'etag',
  'last-modified',
  'retry-after',
])
/** Fields that belong to a body, which cannot be read without them. */
const OF_BODY: ReadonlySet<string> = new Set(['content-type', 'content-length', CODING])
/** A scheme, an authority, or a backslash, which some clients read as a slash. */
const NAMES_A_HOST = /\/\/|\\|[<"]\s*[a-z][a-z0-9+.-]*:/i

/** @param allowed names of the upstream's headers that reach the client, beside the coding of the body */
export function compileResponsePolicy(allowed: readonly string[]): ResponsePolicy {
  const names = [...new Set([...allowed.map(name => name.toLowerCase()), CODING])]
  const forbidden = names.find(name => !mayReachClient(name))
  if (forbidden !== undefined) throw new Error(`The header ${forbidden} cannot be forwarded to a client`)

  return (statusCode, headers) => {
    if (statusCode === 204) return passed(names, headers, false)
    if (statusCode === 205) return withoutContent(passed(names, headers, false))
    if (statusCode === 304) return notModified(names, headers)
    if (isSuccess(statusCode)) {
      const mayPass = isJson(headers['content-type']) || isAllowedEmpty(statusCode, headers)
      return mayPass ? passed(names, headers, true) : denied('upstream_error')
    }
    return decideOnError(statusCode, headers)
  }
}

/** The gateway never sends Range, so a 206 would pass off a part as the complete response. */
function isSuccess(statusCode: number): boolean {
  return statusCode >= 200 && statusCode < 300 && statusCode !== 206
}

/** No body is no body that is not JSON. A 200 or 203 owes the client the resource, which is JSON (RFC 9110, section 15.3). */
function isAllowedEmpty(statusCode: number, headers: UpstreamHeaders): boolean {
  const isEmpty = headers['content-length'] === '0' && headers['content-type'] === undefined
  return isEmpty && statusCode !== 200 && statusCode !== 203
}

/** A 205 has no content, but unlike a 204 a length (RFC 9110, section 15.3.6). What the upstream sends nevertheless is discarded. */
function withoutContent(decision: PolicyDecision): PolicyDecision {
  if (decision.kind !== 'pass') return decision
  return { ...decision, headers: { ...decision.headers, 'content-length': '0' } }
}

/** What the log calls a response of the upstream that became `upstream_error`. */
export function nameFault(statusCode: number, headers: UpstreamHeaders): string {
  if (!isSuccess(statusCode) && statusCode !== 304) return `status_${statusCode}`
  const type = headers['content-type']
  const isOtherType = (type === undefined || typeof type === 'string') && !isJson(type)
  const hasBody = ![204, 205, 304].includes(statusCode) && !isAllowedEmpty(statusCode, headers)
  return hasBody && isOtherType ? 'not_json' : 'repeated_header'
}

function decideOnError(statusCode: number, headers: UpstreamHeaders): PolicyDecision {
  const retryAfter = headers['retry-after']
  if (statusCode === 503) {
    return denied('upstream_unavailable', { retryAfterSeconds: parseRetryAfter(retryAfter) })
  }
  if (statusCode === 404) return denied('upstream_not_found')
  // 401, 403 and 407 concern the gateway's own credentials at the upstream, not the client's key.
  if (statusCode < 400 || statusCode > 499 || [401, 403, 407].includes(statusCode)) {
    return denied('upstream_error')
  }
  return { kind: 'reject', retryAfter: typeof retryAfter === 'string' ? retryAfter : null }
}

function passed(names: readonly string[], headers: UpstreamHeaders, hasBody: boolean): PolicyDecision {
  const named = connectionNamed(headers['connection'])
  const passing: Record<string, string> = {}
  for (const name of names) {
    const value = headers[name]
    if (value === undefined || named.includes(name)) continue
    if (typeof value !== 'string' && SINGLETONS.has(name)) return denied('upstream_error')
    if (!hasBody && OF_BODY.has(name)) continue
    const text = typeof value === 'string' ? value : value.join(', ')
    if (name !== 'link' || !NAMES_A_HOST.test(text)) passing[name] = text
  }
  passing['cache-control'] = privateCacheControl(headers['cache-control'])
  return { kind: 'pass', headers: passing, hasBody }
}

/**
 * A cache of the client takes each field of a 304 for its stored response (RFC 9111, section 3.2): a `Cache-Control` that
 * the upstream did not send would end the lifetime of that one, which is private already.
 */
function notModified(names: readonly string[], headers: UpstreamHeaders): PolicyDecision {
  const decision = passed(names, headers, false)
  if (decision.kind !== 'pass' || headers['cache-control'] !== undefined) return decision
  const { 'cache-control': _added, ...passing } = decision.headers
  return { ...decision, headers: passing }
}

const NO_NAMES: readonly string[] = []

/** Fields that `Connection` names, which are for that connection only. Fields of the body always pass. */
function connectionNamed(connection: string | string[] | undefined): readonly string[] {
  if (connection === undefined || connection === 'keep-alive' || connection === 'close') return NO_NAMES
  return String(connection)
    .toLowerCase()
    .split(',')
    .map(token => token.trim())
    .filter(token => !OF_BODY.has(token))
}

function isJson(contentType: string | string[] | undefined): boolean {
  return typeof contentType === 'string' && JSON_TYPE.test(contentType)
}

/** Ignores the date form of RFC 9110, section 10.2.3, which needs synchronised clocks. */
function parseRetryAfter(retryAfter: string | string[] | undefined): number {
  if (typeof retryAfter !== 'string' || !/^\d{1,9}$/.test(retryAfter)) return DEFAULT_RETRY_AFTER_SECONDS
  return Number(retryAfter)
}

/** One directive: its name, and its value as a quoted string or as a token. */
export const DIRECTIVE = /([^\s,=]+)(?:\s*=\s*(?:"([^"]*)"|([^\s,]*)))?/g
/** Each lets a shared cache store the response to a request with `Authorization` (RFC 9111, section 3.5). */
const ALLOWS_SHARED_CACHE: ReadonlySet<string> = new Set([
  'public',
  's-maxage',
  'must-revalidate',
  'proxy-revalidate',
])
/** Directives for shared caches only, which have no effect beside `private`. */
const SHARED_ONLY: ReadonlySet<string> = new Set(['public', 's-maxage', 'proxy-revalidate'])

/**
 * Every response belongs to one key: no shared cache may store it. Stricter directives of the upstream stay.
 * @param field the upstream's `Cache-Control`; a list if it was sent more than once
 */
export function privateCacheControl(field: string | string[] | undefined): string {
  if (field === undefined) return 'private'
  const text = String(field)
  const directives = text.match(DIRECTIVE) ?? []
  const names = directives.map(directiveName)
  const isRestricted = names.includes('no-store') || directives.some(isPrivate)
  const removable = isRestricted ? SHARED_ONLY : ALLOWS_SHARED_CACHE
  const needsChange = names.some(name => removable.has(name)) || (!isRestricted && names.includes('private'))
  if (directives.length > 0 && !needsChange) return text
  const rest = directives.filter(
    directive => !SHARED_ONLY.has(directiveName(directive)) && directiveName(directive) !== 'private',
  )
  return ['private', ...rest].join(', ')
}

/** `private="field"` forbids storing that field only, so it does not count. */
function isPrivate(directive: string): boolean {
  return directive.toLowerCase() === 'private'
}

function directiveName(directive: string): string {
  return (directive.split('=', 1)[0] ?? '').trim().toLowerCase()
}
