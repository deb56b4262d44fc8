import type { BlockList } from 'node:net'
import { authorize, type Permit, type Verdict } from '../domain/authorize.ts'
import type { Clock } from '../domain/clock.ts'
import { denied } from '../domain/denial.ts'
import type { Lookup } from '../domain/key/lookup.ts'
import { holdsStrayKey, strayKeysOf } from '../domain/key/stray-keys.ts'
import { matchRoute, type Route, type RouteMatch } from '../domain/route/route.ts'
import { writeBuffered } from '../http/buffered-response.ts'
import { clientAddressOf } from '../http/client-address.ts'
import type { KeyStore } from '../keys/key-store.ts'
import type { RateLimits } from '../limits/rate-limiter.ts'
import type { RequestObserver } from '../observability/request-observer.ts'
import type { ClientRequest, Deny } from '../upstream/client-request.ts'
import type { Forward } from '../upstream/forward.ts'
import type { Admission } from './admission.ts'
import { applyLimits } from './apply-limits.ts'
import type { CredentialScheme } from './credential.ts'
import { describeKey } from './describe-key.ts'
import { readHead } from './request-head.ts'
import { requestIdOf } from './request-id.ts'

export interface Gateway {
  readonly routes: readonly Route[]
  readonly credentials: CredentialScheme
  readonly admission: Pick<Admission, 'admits' | 'admitsWorkspace'>
  readonly keys: Pick<KeyStore, 'get'>
  /** Peers whose `X-Forwarded-For` is trusted; null if there are none. */
  readonly trustedProxies: BlockList | null
  /** Null if no rate limit is configured. */
  readonly limits: RateLimits | null
  readonly forward: Forward
  readonly deny: Deny
  readonly clock: Clock
  readonly observer: RequestObserver
  /** Whether the listener is closed and only requests in flight are still served. */
  readonly isStopping: () => boolean
}

/** A request whose route is known and whose key is to be looked up. */
interface ReadRequest {
  readonly request: ClientRequest
  readonly match: RouteMatch
  readonly query: string
  readonly clientAddress: string
}

/**
 * The lifecycle of a request, in the order of the contract's checks (section 2). Each step responds or continues.
 * @param target request target, as the client sent it
 * @returns a promise only if the lookup or a rate limit needs a store
 */
export function handleRequest(
  gateway: Gateway,
  request: ClientRequest,
  target: string,
): Promise<void> | void {
  const { credentials, admission, keys, observer, deny } = gateway
  const { message, observation } = request

  // 1. Well formed and within limits: other requests are ambiguous between servers.
  const { httpVersion, rawHeaders, headers } = message
  const head = readHead({ httpVersion, url: target, rawHeaders })
  observation.requestId = requestIdOf(head.ok ? headers['x-request-id'] : undefined)
  if (!head.ok) return deny(request, denied(head.reason))
  const { hasBody } = head.head

  // 2. A known path, by its raw bytes: the gateway never decodes or normalises a path.
  const [path, query] = splitTarget(target)
  const match = matchRoute(gateway.routes, path)
  if (match === null) return deny(request, denied('unknown_route'), hasBody)
  observation.route = match.route.name

  // 3. GET, without a body that the upstream might read as a second request.
  if (message.method !== 'GET') return deny(request, denied('method_not_allowed'), hasBody)
  if (hasBody) return deny(request, denied('body_not_allowed'))

  // 4. One credential, of the right form and with a valid MAC.
  const credential = credentials.read(head.head)
  if (!credential.ok) return conclude(gateway, { request, match }, denied(credential.reason))

  // Load shedding precedes the first step that can wait.
  if (gateway.isStopping()) return deny(request, denied('draining'))
  if (!admission.admits()) return deny(request, denied('overloaded'))

  observer.lookingUp(observation)
  const clientAddress = addressOf(gateway, request)
  const read = { request, match, query, clientAddress }
  const lookup = keys.get(credential.digest, credential.isUnsigned ? clientAddress : null)
  const verdict =
    lookup instanceof Promise
      ? lookup.then(found => decide(gateway, read, found))
      : decide(gateway, read, lookup)
  return verdict instanceof Promise
    ? verdict.then(decided => conclude(gateway, read, decided))
    : conclude(gateway, read, verdict)
}

/** Checks 5 to 9. */
function decide(gateway: Gateway, read: ReadRequest, lookup: Lookup): Promise<Verdict> | Verdict {
  const { request, match, query, clientAddress } = read
  const { admission, clock, limits, observer } = gateway
  observer.lookedUp(request.observation, lookup)
  request.observation.clientAddress = clientAddress
  const verdict = authorize({ lookup, match, query, nowMs: clock.wallMs(), clientAddress })
  if (verdict.kind === 'denied') return verdict
  if (holdsKeyInTarget(gateway, read, verdict.permit)) return KEY_IN_TARGET
  // The workspace is known only after the lookup.
  const ofWorkspace = observer.inFlightOf(verdict.permit.grant.workspaceId)
  if (!admission.admitsWorkspace(ofWorkspace)) return denied('workspace_overloaded')
  // Requests that fail an earlier check do not count towards a rate limit.
  return limits?.applyTo(match.route) === true ? applyLimits(limits, verdict, request.response) : verdict
}

/** Only a permitted request is forwarded or gets the description of its key. */
function conclude(
  gateway: Gateway,
  { request, match }: Pick<ReadRequest, 'request' | 'match'>,
  verdict: Verdict,
): void {
  const { response, observation } = request
  gateway.observer.decided(observation, verdict)
  if (verdict.kind === 'denied') {
    gateway.deny(request, verdict)
    return
  }
  const { permit } = verdict
  if (match.route.answeredBy === 'upstream') gateway.forward(request, permit)
  else observation.responseBytes = writeBuffered(response, describeKey(permit.grant), observation.requestId)
}

const KEY_IN_TARGET = denied('invalid_query', { detail: 'Send the API key in the Authorization header only' })

/** Upstreams write paths and queries to their logs, where a key must not appear. */
function holdsKeyInTarget(
  { credentials }: Gateway,
  { request }: ReadRequest,
  { upstreamTarget }: Permit,
): boolean {
  return holdsStrayKey(upstreamTarget, strayKeysOf(request.message.rawHeaders, credentials.prefix))
}

function addressOf({ trustedProxies }: Gateway, { message }: ClientRequest): string {
  const { socket, headers } = message
  const forwardedFor = headers['x-forwarded-for']
  return clientAddressOf(
    socket.remoteAddress ?? '',
    trustedProxies,
    Array.isArray(forwardedFor) ? forwardedFor.join(',') : forwardedFor,
  )
}

function splitTarget(target: string): [path: string, query: string] {
  const mark = target.indexOf('?')
  return mark < 0 ? [target, ''] : [target.slice(0, mark), target.slice(mark + 1)]
}
