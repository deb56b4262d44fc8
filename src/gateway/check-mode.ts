import type { FastifyInstance } from 'fastify'
import type { Config } from '../config/schema/schema.ts'
import type { Permit } from '../domain/authorize.ts'
import { type Denial, denialRow, denied } from '../domain/denial.ts'
import { findStrayKeys, holdsStrayKey, isAuthorization } from '../domain/key/secret.ts'
import { bufferedResponse, NO_BYTES, toFieldList, writeBuffered } from '../http/buffered-response.ts'
import type { Assertions } from '../upstream/assertion/assertions.ts'
import type { ClientRequest, Deny } from '../upstream/client-request.ts'
import { abortResponse } from '../upstream/forward.ts'
import { identityHeaders } from '../upstream/request-headers.ts'
import type { Admission } from './admission.ts'
import type { Gateway, OriginalRequest, Responder } from './handle-request.ts'
import { createDeny, createErrorResponse, type PresentDenial } from './responses.ts'
import { createServer, type ServeDeps, serveRequests } from './server.ts'

interface CheckDeps extends ServeDeps {
  readonly admission: Admission
  /** Null if the upstream gets none. */
  readonly assertions: Assertions | null
}

/**
 * The listener of check mode: the gateway's own decision for a proxy that forwards requests itself. It differs in where
 * it reads a request, and in how it answers.
 */
export function createCheckListener(
  config: Config['gateway'],
  proxy: ProxyKind,
  gateway: Gateway,
  deps: CheckDeps,
): FastifyInstance {
  const { reader, rules, responder } = gateway
  const { observer } = responder
  const { pathPrefix = '' } = config.check
  const present = presentDenialTo(proxy)
  const deny = createDeny(deps.admission, observer, present)
  const app = createServer(config, observer, present)
  const checking: Gateway = {
    reader: {
      ...reader,
      original: ({ method = '', rawHeaders }, url) =>
        readOriginal(proxy, { method, url, rawHeaders }, pathPrefix),
    },
    rules: {
      ...rules,
      denyPermitted: ({ message }, permit, target) =>
        denyUnforwardable({ proxy, prefix: reader.credentials.prefix }, message.rawHeaders, permit, target),
    },
    responder: { handlePermitted: createCheckHandler(deps.assertions, deny), deny, observer },
  }
  serveRequests(app, checking, deps)
  return app
}

export type ProxyKind = NonNullable<Config['gateway']['check']['proxy']>

/** Headers in which a proxy says what its client asked for, in lower case. Envoy repeats the request line instead. */
interface OriginalFields {
  readonly method: string
  readonly target: string
}

const X_ORIGINAL: OriginalFields = { method: 'x-original-method', target: 'x-original-uri' }
const X_FORWARDED: OriginalFields = { method: 'x-forwarded-method', target: 'x-forwarded-uri' }
const ORIGINAL_FIELDS: Readonly<Record<ProxyKind, OriginalFields | null>> = {
  nginx: X_ORIGINAL,
  haproxy: X_ORIGINAL,
  caddy: X_FORWARDED,
  traefik: X_FORWARDED,
  envoy: null,
}

/**
 * Reads what the client asked for from the headers of this kind of proxy alone, so that no other header of a client can
 * steer the decision.
 * @param check.url own target of the check
 * @param pathPrefix what Envoy writes before the original target; '' for nothing
 * @returns null if there is no value, or more than one
 */
export function readOriginal(
  proxy: ProxyKind,
  check: { method: string; url: string; rawHeaders: readonly string[] },
  pathPrefix: string,
): OriginalRequest | null {
  const fields = ORIGINAL_FIELDS[proxy]
  if (fields === null) {
    const { method, url } = check
    return url.startsWith(`${pathPrefix}/`) ? { method, target: url.slice(pathPrefix.length) } : null
  }
  const method = readSingleValue(fields.method, check.rawHeaders)
  const target = readSingleValue(fields.target, check.rawHeaders)
  return method === null || target === null ? null : { method, target }
}

/** Whether the kind of proxy names the client's request in this header. @param name in lower case */
export function namesOriginal(proxy: ProxyKind, name: string): boolean {
  const fields = ORIGINAL_FIELDS[proxy]
  return fields !== null && (name === fields.method || name === fields.target)
}

function readSingleValue(name: string, rawHeaders: readonly string[]): string | null {
  let found: string | null = null
  for (let at = 0; at < rawHeaders.length; at += 2) {
    if (rawHeaders[at]?.toLowerCase() !== name) continue
    if (found !== null) return null
    found = rawHeaders[at + 1] ?? ''
  }
  return found === '' ? null : found
}

const CHANGED_TARGET = denied('invalid_query', {
  detail: 'Leave out the "?" if there are no query parameters',
})
const KEY_IN_HEADER = denied('invalid_query', { detail: 'Send the API key in the Authorization header only' })
const FORGED_IDENTITY = denied('invalid_query', {
  detail: 'Send no headers whose names begin with X-Postern',
})

/** Servers that read `_` and `.` as `-` would take such a field for one of the gateway's own. */
const IDENTITY_VARIANT = /^x[-_.]postern[-_.]/

/**
 * The last check of a permitted request. The gateway would rebuild its target and headers. A proxy forwards what the
 * client sent, so it must equal what the gateway would forward, without a key outside of `Authorization`.
 */
export function denyUnforwardable(
  { proxy, prefix }: { readonly proxy: ProxyKind; readonly prefix: string | null },
  rawHeaders: readonly string[],
  permit: Permit,
  target: string,
): Denial | null {
  if (target !== permit.upstreamTarget) return CHANGED_TARGET
  const keys = findStrayKeys(rawHeaders, prefix)
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = rawHeaders[at]?.toLowerCase() ?? ''
    if (isAuthorization(name) || namesOriginal(proxy, name)) continue
    if (holdsStrayKey(name, keys) || holdsStrayKey(rawHeaders[at + 1] ?? '', keys)) return KEY_IN_HEADER
    if (IDENTITY_VARIANT.test(name) && /[_.]/.test(name)) return FORGED_IDENTITY
  }
  return null
}

/**
 * Tells the proxy to forward a request, and with which headers.
 * @param assertions null if none are configured; otherwise each response has one
 */
export function createCheckHandler(assertions: Assertions | null, deny: Deny): Responder['handlePermitted'] {
  return (request, { grant, upstreamTarget }) => {
    const permit = (assertion: string | null) => writePermitted(request, identityHeaders(grant, assertion))
    const assertion = assertions === null ? null : assertions.assertionFor(grant, upstreamTarget)
    if (!(assertion instanceof Promise)) return permit(assertion)
    assertion.then(permit).catch((error: unknown) => {
      request.observation.fault = 'assertion'
      if (request.response.headersSent) abortResponse(request, error)
      else deny(request, denied('internal_error'))
    })
  }
}

function writePermitted(
  { response, observation }: ClientRequest,
  identity: Readonly<Record<string, string>>,
): void {
  // The proxy disconnected while the assertion was signed.
  if (response.destroyed) return
  const fields = toFieldList({ 'cache-control': 'no-store', ...identity })
  writeBuffered(response, bufferedResponse(200, fields, NO_BYTES), observation.requestId)
}

/** How a denial is answered to a kind of proxy: all but nginx pass any response on to their client. */
export function presentDenialTo(proxy: ProxyKind): PresentDenial {
  return proxy === 'nginx' ? presentToNginx : createErrorResponse
}

/**
 * nginx `auth_request` turns every status but 2xx, 401 and 403 into 500, and drops the body. Headers carry both, so that
 * its configuration can restore them.
 */
const presentToNginx: PresentDenial = denial => {
  const { status, headers, body } = createErrorResponse(denial)
  return {
    status: status === 401 ? 401 : 403,
    headers: {
      ...headers,
      'x-postern-status': String(status),
      'x-postern-code': denialRow(denial.reason).code,
      'x-postern-body': escapeNonAscii(body),
    },
    body: '',
  }
}

/** The same JSON, as a header may hold it. */
function escapeNonAscii(json: string): string {
  return json.replace(/[^\x20-\x7e]/g, character => {
    return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`
  })
}
