import { randomUUID } from 'node:crypto'
import type { DenialReason } from '../domain/denial.ts'
import { NO_HOST, NOT_HTTP_VERSION, TWO_HOSTS } from '../http/malformed-request.ts'

const MAX_TARGET_LENGTH = 8 * 1024
const MAX_HEADERS_LENGTH = 16 * 1024
export const MAX_HEADER_FIELDS = 100

/** The parts of a valid request head that later checks need, read once from the raw fields. */
export interface RequestHead {
  readonly host: string
  /** All `Authorization` fields: more than one is ambiguous and rejected. */
  readonly authorization: readonly string[]
  readonly hasBody: boolean
}

type ReadHead =
  | { readonly ok: true; readonly head: RequestHead }
  | { readonly ok: false; readonly reason: DenialReason; readonly detail?: string }

/**
 * uri-host and port (RFC 9110, section 7.2): a registered name or an address literal (RFC 3986, section 3.2.2), and a port
 * of at most 65535.
 */
const HOST =
  /^(?:(?:[A-Za-z0-9._~!$&'()*+,;=-]|%[0-9A-Fa-f]{2}){1,253}|\[[0-9A-Fa-f:.]{2,45}\])(?::(?:\d{0,4}|[0-5]\d{4}|6[0-4]\d{3}|65[0-4]\d\d|655[0-2]\d|6553[0-5]))?$/

/**
 * Check 1: the request is well formed and within limits.
 * @param request.rawHeaders alternating names and values, duplicates included
 */
export function readHead(request: {
  httpVersion: string
  url: string
  rawHeaders: readonly string[]
}): ReadHead {
  if (request.url.length > MAX_TARGET_LENGTH) return { ok: false, reason: 'url_too_long' }
  const fields = readFields(request.rawHeaders)
  if (fields.bytes > MAX_HEADERS_LENGTH || request.rawHeaders.length > 2 * MAX_HEADER_FIELDS) {
    return { ok: false, reason: 'headers_too_large' }
  }
  const version = request.httpVersion
  if (version !== '1.1' && version !== '1.0') return malformed(NOT_HTTP_VERSION)
  const [host] = fields.hosts
  if (host === undefined) return malformed(NO_HOST)
  if (fields.hosts.length > 1) return malformed(TWO_HOSTS)
  if (!HOST.test(host)) return malformed('The Host field is not a host name or address with an optional port')
  if (!isValidCoding(fields.codings, version)) {
    return malformed('The Transfer-Encoding field must be chunked alone, in a request of HTTP/1.1')
  }
  const { authorization } = fields
  const hasBody = fields.codings.length > 0 || fields.hasLength
  return { ok: true, head: { host, authorization, hasBody } }
}

function malformed(detail: string): ReadHead {
  return { ok: false, reason: 'malformed_request', detail }
}

/** Shared, because most requests have no field of a kind. */
const NONE: readonly string[] = []

interface Fields {
  /** Length of all fields as written, each with colon, space and line break. */
  bytes: number
  hosts: readonly string[]
  authorization: readonly string[]
  codings: readonly string[]
  hasLength: boolean
}

/** Reads all fields in one pass. Comparing lengths first avoids converting most names to lower case. */
function readFields(rawHeaders: readonly string[]): Fields {
  const fields: Fields = {
    bytes: 0,
    hosts: NONE,
    authorization: NONE,
    codings: NONE,
    hasLength: false,
  }
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const name = rawHeaders[index] ?? ''
    const value = rawHeaders[index + 1] ?? ''
    fields.bytes += name.length + value.length + 4
    switch (name.length) {
      case 4:
        if (name.toLowerCase() === 'host') fields.hosts = [...fields.hosts, value]
        break
      case 13:
        if (name.toLowerCase() === 'authorization') fields.authorization = [...fields.authorization, value]
        break
      case 14:
        if (name.toLowerCase() === 'content-length' && value !== '0') fields.hasLength = true
        break
      case 17:
        if (name.toLowerCase() === 'transfer-encoding') fields.codings = [...fields.codings, value]
        break
    }
  }
  return fields
}

/** Any coding except a single `chunked` of HTTP/1.1 is ambiguous between servers (RFC 9112, section 6.1). */
function isValidCoding(codings: readonly string[], version: string): boolean {
  return (
    codings.length === 0 ||
    (codings.length === 1 && version === '1.1' && codings[0]?.toLowerCase() === 'chunked')
  )
}

const HARMLESS = /^[A-Za-z0-9._-]{1,128}$/

/**
 * @param sent `X-Request-Id` as Node reads it: with several fields it holds a comma, which is not harmless
 * @returns the client's own id if it is harmless in a log line, else a new one
 */
export function chooseRequestId(sent: string | readonly string[] | undefined): string {
  return typeof sent === 'string' && HARMLESS.test(sent) ? sent : randomUUID()
}
