import type { IncomingMessage, ServerResponse } from 'node:http'
import type { BlockList } from 'node:net'
import { authorize, type Permit, type Verdict } from '../domain/authorize.ts'
import type { Clock } from '../domain/clock.ts'
import { type Denial, denied } from '../domain/denial.ts'
import type { Lookup } from '../domain/key/key-record.ts'
import { denialOfCounts, type PolicyCount, secondsUntil } from '../domain/rate-limit.ts'
import { matchRoute, type Route, type RouteMatch } from '../domain/route/route.ts'
import { findClientAddress } from '../http/client-address.ts'
import type { KeyStore } from '../keys/tiers/key-store.ts'
import type { RateLimiter } from '../limits/rate-limiter.ts'
import type { RequestObserver } from '../observability/request-observer.ts'
import type { ClientRequest, Deny } from '../upstream/client-request.ts'
import type { Admission } from './admission.ts'
import type { CredentialScheme } from './credentials.ts'
import { chooseRequestId, readHead } from './request-head.ts'

/** How a listener handles requests. Check mode has three values of its own. */
export interface Gateway {
  readonly reader: RequestReader
  readonly rules: RequestRules
  readonly responder: Responder
}

/** What a request asks for, and with which credential. */
interface RequestReader {
  /** @returns null if a proxy does not say exactly once what the client asked for */
  readonly original: (message: IncomingMessage, target: string) => OriginalRequest | null
  readonly credentials: CredentialScheme
  /** Peers whose `X-Forwarded-For` is trusted; null if there are none. */
  readonly trustedProxies: BlockList | null
}

/** What a request is checked against. */
interface RequestRules {
  readonly routes: readonly Route[]
  readonly keys: Pick<KeyStore, 'get'>
  readonly limits: Pick<RateLimiter, 'count'>
  readonly admission: Pick<Admission, 'admits' | 'admitsWorkspace'>
  /** The last check before a permit is used: nothing that holds a key may be forwarded. */
  readonly denyPermitted: (request: ClientRequest, permit: Permit, target: string) => Denial | null
  readonly clock: Clock
  /** Whether the listener is closed and only requests in flight are still served. */
  readonly isStopping: () => boolean
}

/** How a request is answered and recorded. */
export interface Responder {
  /** Responds to a permitted request: here with the response of the upstream or of the gateway itself. */
  readonly handlePermitted: (request: ClientRequest, permit: Permit) => void
  readonly deny: Deny
  readonly observer: RequestObserver
}

/** What a client asked for: the request itself says it, or in check mode the proxy in front. */
export interface OriginalRequest {
  readonly method: string
  /** Request target, as the client sent it. */
  readonly target: string
}

/** A request whose route is known and whose key is to be looked up. */
interface ReadRequest {
  readonly request: ClientRequest
  readonly match: RouteMatch
  readonly target: string
  readonly query: string
  readonly clientAddress: string
}

const ORIGINAL_UNKNOWN = denied('malformed_request', {
  detail: 'The proxy does not say, each exactly once, which method and which target the client asked for',
})

/**
 * The lifecycle of a request: the checks of docs/concepts.md, in their order. Each step responds or continues.
 * @param original null if it is not known
 * @returns a promise only if the lookup or a rate limit needs a store
 */
export function handleRequest(
  gateway: Gateway,
  request: ClientRequest,
  original: OriginalRequest | null,
): Promise<void> | void {
  const { reader, rules } = gateway
  const { deny, observer } = gateway.responder
  const { message, observation } = request

  // 1. Well formed and within limits: other requests are ambiguous between servers.
  const { httpVersion, rawHeaders, headers } = message
  const head = readHead({ httpVersion, url: original?.target ?? '', rawHeaders })
  observation.requestId = chooseRequestId(head.ok ? headers['x-request-id'] : undefined)
  if (!head.ok)
    return deny(request, denied(head.reason, head.detail === undefined ? {} : { detail: head.detail }))
  if (original === null) return deny(request, ORIGINAL_UNKNOWN)
  const { method, target } = original
  const { hasBody } = head.head

  // 2. A known path, by its raw bytes: the gateway never decodes or normalises a path.
  const [path, query] = splitTarget(target)
  const match = matchRoute(rules.routes, path)
  if (match === null) return deny(request, denied('unknown_route'), hasBody)
  observation.route = match.route.name

  // 3. GET, without a body that the upstream might read as a second request.
  if (method !== 'GET') return deny(request, denied('method_not_allowed'), hasBody)
  if (hasBody) return deny(request, denied('body_not_allowed'))

  // 4. One credential, of the right form and with a valid MAC.
  const credential = reader.credentials.read(head.head)
  if (!credential.ok) return conclude(gateway, request, denied(credential.reason))

  // Load shedding precedes the first step that can wait.
  if (rules.isStopping()) return deny(request, denied('draining'))
  if (!rules.admission.admits()) return deny(request, denied('overloaded'))

  observer.lookingUp(observation)
  const clientAddress = readClientAddress(reader, request)
  const read = { request, match, target, query, clientAddress }
  const lookup = rules.keys.get(credential.digest, credential.isUnsigned ? clientAddress : null)
  const verdict =
    lookup instanceof Promise
      ? lookup.then(found => decide(gateway, read, found))
      : decide(gateway, read, lookup)
  return verdict instanceof Promise
    ? verdict.then(decided => conclude(gateway, request, decided))
    : conclude(gateway, request, verdict)
}

/** Checks 5 to 9. */
function decide(gateway: Gateway, read: ReadRequest, lookup: Lookup): Promise<Verdict> | Verdict {
  const { request, match, target, query, clientAddress } = read
  const { admission, clock, limits } = gateway.rules
  const { observer } = gateway.responder
  observer.lookedUp(request.observation, lookup)
  request.observation.clientAddress = clientAddress
  const verdict = authorize({ lookup, match, query, nowMs: clock.wallMs(), clientAddress })
  if (verdict.kind === 'denied') return verdict
  const denial = gateway.rules.denyPermitted(request, verdict.permit, target)
  if (denial !== null) return denial
  // The workspace is known only after the lookup.
  const ofWorkspace = observer.countInFlight(verdict.permit.grant.workspaceId)
  if (!admission.admitsWorkspace(ofWorkspace)) return denied('workspace_overloaded')
  // Requests that fail an earlier check do not count towards a rate limit.
  const counting = limits.count(verdict.permit)
  return counting === null ? verdict : applyLimits(counting, verdict, request.response)
}

/** Only a permit leads to another response than a denial. */
function conclude({ responder }: Gateway, request: ClientRequest, verdict: Verdict): void {
  responder.observer.decided(request.observation, verdict)
  if (verdict.kind === 'denied') responder.deny(request, verdict)
  else responder.handlePermitted(request, verdict.permit)
}

function readClientAddress({ trustedProxies }: RequestReader, { message }: ClientRequest): string {
  const { socket, headers } = message
  const forwardedFor = headers['x-forwarded-for']
  return findClientAddress(
    socket.remoteAddress ?? '',
    trustedProxies,
    Array.isArray(forwardedFor) ? forwardedFor.join(',') : forwardedFor,
  )
}

function splitTarget(target: string): [path: string, query: string] {
  const mark = target.indexOf('?')
  return mark < 0 ? [target, ''] : [target.slice(0, mark), target.slice(mark + 1)]
}

/** Waits until a permitted request is counted. Every response to it, also a denial, has the rate limit fields. */
async function applyLimits(
  counting: Promise<readonly PolicyCount[]>,
  permitted: Extract<Verdict, { kind: 'permitted' }>,
  response: ServerResponse,
): Promise<Verdict> {
  const counts = await counting
  for (const [name, value] of Object.entries(rateLimitFields(counts))) response.setHeader(name, value)
  return denialOfCounts(counts) ?? permitted
}

/**
 * The two fields of draft-ietf-httpapi-ratelimit-headers-11, as lists of structured fields (RFC 9651); a policy's name
 * needs no escaping. The Retry-After of a denial is never before the end of a window that is named here (section 6).
 */
function rateLimitFields(counts: readonly PolicyCount[]): Record<string, string> {
  const policies = counts.map(({ policy: { name, requests }, windowSeconds }) => {
    return `"${name}";q=${requests};w=${windowSeconds}`
  })
  const limits = counts.map(({ policy: { name }, remaining, resetMs }) => {
    return `"${name}";r=${remaining};t=${secondsUntil(resetMs)}`
  })
  return { 'ratelimit-policy': policies.join(', '), ratelimit: limits.join(', ') }
}
