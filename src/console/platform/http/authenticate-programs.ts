import { hash, timingSafeEqual } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import type { onRequestHookHandler } from 'fastify'
import { RateLimiterMemory, RateLimiterRes } from 'rate-limiter-flexible'
import type { Clock } from '../../../domain/clock.ts'
import { findClientNetwork } from '../../../domain/form/address.ts'
import type { ControlLogger } from '../../../observability/control-logger.ts'
import type { AdminToken, Principal } from '../access/principal.ts'
import type { RandomBytes } from '../database/ids.ts'
import { ApiError } from './api-error.ts'

interface ProgramAuthentication {
  /** The current `POSTERN_ADMIN_TOKEN`. */
  readonly operatorTokens: AcceptedTokens
  readonly tokens: {
    /** @returns null for an unknown one */
    identify(presented: string): Promise<AdminToken | 'expired' | 'revoked' | null>
  }
  /** Of failed attempts. */
  readonly limit: AddressLimit
}

/**
 * Admits signed-in people and programs with a good token. A good token works however many attempts from its address have
 * failed: clients behind one address must not be able to lock each other out.
 */
export function admitPrincipals(parts: ProgramAuthentication): onRequestHookHandler {
  return async request => {
    if (request.principal !== null) return
    const presented = readBearerToken(request.raw)
    const found = presented === null ? null : await identify(parts, presented)
    if (isPrincipal(found)) {
      request.principal = found
      request.isStillAdmitted = async () =>
        presented !== null && isPrincipal(await identify(parts, presented))
      return
    }
    if (request.headers.authorization !== undefined) {
      await countAttempt(parts.limit, request.callerAddress, 'failed attempts')
    }
    throw found === null ? unauthenticated() : unauthenticated(`This token ${PROBLEMS[found]}`)
  }
}

function isPrincipal(found: Principal | 'expired' | 'revoked' | null): found is Principal {
  return typeof found === 'object' && found !== null
}

/** Only the holder of the whole token learns this. */
const PROBLEMS = { expired: 'has expired', revoked: 'was revoked' } as const

async function identify(
  { operatorTokens, tokens }: ProgramAuthentication,
  presented: string,
): Promise<Principal | 'expired' | 'revoked' | null> {
  if (operatorTokens.accept(presented)) return { kind: 'operator' }
  const token = await tokens.identify(presented)
  return typeof token === 'string' || token === null ? token : { kind: 'token', token }
}

const CHALLENGE = { 'www-authenticate': 'Bearer realm="postern"' }
const BEARER = /^Bearer +([A-Za-z0-9._~+/-]+=*)$/i

/** Admits requests with one of the tokens. */
export function requireBearer(tokens: AcceptedTokens): onRequestHookHandler {
  return async request => {
    const presented = readBearerToken(request.raw)
    if (presented === null || !tokens.accept(presented)) throw unauthenticated()
  }
}

export function unauthenticated(text = 'A valid bearer token is required'): ApiError {
  return new ApiError('unauthenticated', text, CHALLENGE)
}

/** Node silently keeps the first of two Authorization headers; a request with two is rejected. */
function readBearerToken({ rawHeaders }: IncomingMessage): string | null {
  const isAuthorization = (text: string, index: number) =>
    index % 2 === 0 && text.toLowerCase() === 'authorization'
  const at = rawHeaders.findIndex(isAuthorization)
  if (at < 0 || rawHeaders.findLastIndex(isAuthorization) !== at) return null
  return BEARER.exec(rawHeaders[at + 1] ?? '')?.[1] ?? null
}

/** A token that is still in use is reported this often. */
const REPORT_EVERY_MS = 60_000

interface AcceptedTokensParts {
  /** For the log. */
  readonly setting: 'console.adminToken' | 'keyService.token'
  /** The current list; a reload replaces it. */
  readonly tokens: () => readonly string[]
  readonly logger: Pick<ControlLogger, 'info'>
  readonly clock: Clock
}

/**
 * The tokens of a setting. While there are several, the log says which are in use: the first once, later ones every minute.
 * A later one that is no longer reported can be removed.
 */
export class AcceptedTokens {
  readonly #parts: AcceptedTokensParts
  #list: readonly string[] = []
  /** By position, on the monotonic clock. */
  readonly #reportedAtMs = new Map<number, number>()

  constructor(parts: AcceptedTokensParts) {
    this.#parts = parts
  }

  accept(presented: string): boolean {
    const tokens = this.#parts.tokens()
    const index = findTokenIndex(presented, tokens)
    if (index >= 0 && tokens.length > 1) this.#report(tokens, index + 1)
    return index >= 0
  }

  #report(tokens: readonly string[], position: number): void {
    if (tokens !== this.#list) this.#reportedAtMs.clear()
    this.#list = tokens
    const { setting, logger, clock } = this.#parts
    const nowMs = clock.monotonicMs()
    const lastMs = this.#reportedAtMs.get(position)
    if (lastMs !== undefined && (position === 1 || nowMs - lastMs < REPORT_EVERY_MS)) return
    this.#reportedAtMs.set(position, nowMs)
    logger.info({ setting, position, of: tokens.length }, 'token in use')
  }
}

/** Compares with each in constant time. @returns -1 if it is none of them */
function findTokenIndex(presented: string, tokens: readonly string[]): number {
  const digest = sha256(presented)
  const matches = tokens.map(token => timingSafeEqual(digest, sha256(token)))
  return matches.indexOf(true)
}

/** Digests have one length, so that the constant-time comparison does not reveal the token's. */
function sha256(text: string): Buffer {
  return hash('sha256', text, 'buffer')
}

/** Bounds the memory: addresses share this many counters. */
const BUCKETS = 65_536
const MINUTE_SECONDS = 60

/** Counts an attempt. @returns seconds to wait; 0 if the attempt is allowed */
export type AddressLimit = (address: string) => Promise<number>

/** Limits attempts per address and minute, in this process. */
export function createAddressLimit(perMinute: number, randomBytes: RandomBytes): AddressLimit {
  const limiter = new RateLimiterMemory({ points: perMinute, duration: MINUTE_SECONDS })
  // Salted, so that an attacker cannot choose an address that shares a counter with a victim's.
  const salt = Buffer.from(randomBytes(16)).toString('hex')
  return async address => {
    const bucket = hash('sha256', `${salt} ${findClientNetwork(address)}`, 'buffer').readUInt32BE() % BUCKETS
    return secondsToWait(limiter, bucket)
  }
}

/** @param what was tried, in the plural @throws ApiError beyond the limit */
export async function countAttempt(limit: AddressLimit, address: string, what: string): Promise<void> {
  const waitSeconds = await limit(address)
  if (waitSeconds === 0) return
  const text = `Too many ${what} from this address; try again in ${waitSeconds} s`
  throw new ApiError('rate_limited', text, { 'retry-after': String(waitSeconds) })
}

/** Counts an attempt. @returns seconds to wait; 0 if the attempt is allowed */
export async function secondsToWait(limiter: RateLimiterMemory, key: string | number): Promise<number> {
  try {
    await limiter.consume(key)
    return 0
  } catch (refusal) {
    if (!(refusal instanceof RateLimiterRes)) throw refusal
    return Math.max(1, Math.ceil(refusal.msBeforeNext / 1000))
  }
}
