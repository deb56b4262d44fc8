import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Verdict } from '../domain/authorize.ts'
import { authorize } from '../domain/authorize.ts'
import type { Clock } from '../domain/clock.ts'
import { denied } from '../domain/denial.ts'
import type { Lookup } from '../domain/lookup.ts'
import { matchRoute, type Route, type RouteMatch } from '../domain/route.ts'
import { keyPrefixOf } from '../domain/secret.ts'
import { holdsStrayKey, strayKeysOf } from '../domain/stray-keys.ts'
import type { KeyStore } from '../keys/key-store.ts'
import type { RateLimits } from '../limits/rate-limiter.ts'
import type { RequestObservation, RequestObserver } from '../observability/request-observer.ts'
import type { Admission } from './admission.ts'
import type { Answer } from './answer.ts'
import { readCredential } from './credential.ts'
import type { KeyCheck } from './key-check.ts'
import { holdToLimits } from './rate-limits.ts'
import { readHead } from './request-head.ts'
import { requestIdOf } from './request-id.ts'

export interface Gateway {
  readonly routes: readonly Route[]
  readonly keyCheck: KeyCheck
  readonly keys: KeyStore
  /** Null where nothing is limited. */
  readonly limits: RateLimits | null
  /** Notes that a key was used; it takes no time. */
  readonly used: (keyId: string) => void
  readonly clock: Clock
  readonly observer: RequestObserver
  readonly answer: Answer
  readonly admission: Pick<Admission, 'admits' | 'admitsOf'>
  /** Whether the listener is closed and only what was in flight is still served. */
  readonly stopping: () => boolean
}

/** What is known of a request once its key is to be looked up. */
interface Asked {
  readonly gateway: Gateway
  readonly reply: FastifyReply
  readonly seen: RequestObservation
  readonly match: RouteMatch
  readonly query: string
}

/**
 * The way of a request, top to bottom. Each step either answers or hands on what it found out. What memory knows is
 * decided in the same turn: a promise is only where somebody has to be asked.
 */
export function handleRequest(
  gateway: Gateway,
  request: FastifyRequest,
  reply: FastifyReply,
  seen: RequestObservation,
): Promise<void> | void {
  const { answer, observer } = gateway
  const raw = request.raw
  const target = request.originalUrl

  // 1. Well formed and within limits: what is read in two ways by two servers goes no further.
  const read = readHead({ httpVersion: raw.httpVersion, url: target, rawHeaders: raw.rawHeaders })
  seen.requestId = requestIdOf(read.ok ? raw.headers['x-request-id'] : undefined)
  if (!read.ok) return answer.refuse(reply, seen, denied(read.reason))
  const { head } = read

  // 2. A known path, by its raw bytes. Nothing is decoded or normalised, here or later.
  const [path, query] = splitTarget(target)
  const match = matchRoute(gateway.routes, path)
  if (match === null) return answer.refuse(reply, seen, denied('unknown_route'), head.hasBody)
  seen.route = match.route.name

  // 3. GET, and nothing in its body that a server behind might take for a second request.
  if (request.method !== 'GET') return answer.refuse(reply, seen, denied('method_not_allowed'), head.hasBody)
  if (head.hasBody) return answer.refuse(reply, seen, denied('body_not_allowed'))

  // 4. One bearer credential. One without the form and MAC of a key costs no look-up.
  const credential = readCredential(head.authorization, gateway.keyCheck.format)
  if (credential.kind !== 'key') {
    const denial = denied(credential.kind === 'missing' ? 'key_missing' : 'key_malformed')
    observer.decided(seen, denial)
    return answer.refuse(reply, seen, denial)
  }

  // Shedding stands before the first thing that can wait: what is too much costs no look-up.
  if (gateway.stopping()) return answer.refuse(reply, seen, denied('draining'))
  if (!gateway.admission.admits()) return answer.refuse(reply, seen, denied('overloaded'))

  observer.lookingUp(seen)
  const asked = { gateway, reply, seen, match, query }
  const lookup = gateway.keys.get(credential.digest)
  return lookup instanceof Promise ? lookup.then(found => decide(asked, found)) : decide(asked, lookup)
}

function decide(asked: Asked, lookup: Lookup): Promise<void> | void {
  const { gateway, reply, seen, match, query } = asked
  const { limits, observer } = gateway
  observer.lookedUp(seen, lookup)

  // 5 to 8. Usable key, its own workspace, scope, query.
  const verdict = withoutKeyInTarget(
    asked,
    authorize({ lookup, match, query, nowMs: gateway.clock.wallMs() }),
  )

  // Whose request it is, is known only now.
  if (verdict.kind === 'permitted') {
    const ofWorkspace = observer.inFlightOf(verdict.permit.grant.workspaceId)
    if (!gateway.admission.admitsOf(ofWorkspace)) return conclude(asked, denied('workspace_overloaded'))
  }

  // 9. Rate limits, where there are some for the route. What was refused before never counts.
  if (verdict.kind === 'permitted' && limits?.applyTo(match.route) === true) {
    return holdToLimits(limits, verdict, reply).then(held => conclude(asked, held))
  }
  conclude(asked, verdict)
}

/** What goes on of path and query would stand in logs of the upstream: a key there is refused like any other bad query. */
function withoutKeyInTarget({ gateway, reply }: Asked, verdict: Verdict): Verdict {
  if (verdict.kind === 'denied') return verdict
  const keys = strayKeysOf(reply.request.raw.rawHeaders, keyPrefixOf(gateway.keyCheck.format))
  if (!holdsStrayKey(verdict.permit.upstreamTarget, keys)) return verdict
  return denied('invalid_query', { detail: 'Send the API key in the Authorization header only' })
}

/** The permit is the only way on. */
function conclude({ gateway, reply, seen, match }: Asked, verdict: Verdict): void {
  const { answer, observer } = gateway
  observer.decided(seen, verdict)
  if (verdict.kind === 'denied') {
    answer.refuse(reply, seen, verdict)
    return
  }
  gateway.used(verdict.permit.grant.id)
  if (match.route.answeredBy === 'gateway') answer.describeKey(reply, seen, verdict.permit)
  else answer.forward(reply, seen, verdict.permit)
}

function splitTarget(target: string): [path: string, query: string] {
  const mark = target.indexOf('?')
  return mark < 0 ? [target, ''] : [target.slice(0, mark), target.slice(mark + 1)]
}
