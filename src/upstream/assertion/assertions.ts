import { SignJWT } from 'jose/jwt/sign'
import { LRUCache } from 'lru-cache'
import type { OnReload } from '../../config/reloadable.ts'
import type { Config } from '../../config/schema/schema.ts'
import { readNamedFile } from '../../config/setting-files.ts'
import { atMost } from '../../domain/bounded.ts'
import { type Clock, withinDeadline } from '../../domain/clock.ts'
import type { KeyGrant } from '../../domain/key/key-record.ts'
import { type AssertionKey, type PublicAssertionKey, parseAssertionKey } from '../../domain/pem.ts'
import { asError, FailureLog, type Log } from '../../observability/failure-log.ts'
import type { CounterHandle, HistogramHandle, Metrics } from '../../observability/metrics/metrics.ts'

export interface ConfiguredAssertions extends Assertions {
  /** The keys of all files, so that verifiers know a key before it signs and after it did (RFC 7517, section 5). */
  publicKeys(): { readonly keys: readonly PublicAssertionKey[] }
}

export interface AssertionDeps {
  readonly config: Config
  readonly onReload: OnReload<Config>
  readonly metrics: Pick<Metrics, 'assertions' | 'assertionSigning'>
  readonly logger: Log
  readonly clock: Clock
  /** Unlike `clock.wallMs` it follows a clock that is set back, or verifiers would see assertions from the future. */
  readonly nowMs: () => number
}

interface Keys {
  readonly first: AssertionKey
  readonly publicKeys: readonly PublicAssertionKey[]
}

/** @throws if a file holds no usable key */
export function createConfiguredAssertions(deps: AssertionDeps): ConfiguredAssertions {
  const settings = readSettings(deps.config)
  const reports = createReports(deps)
  const reused = deps.metrics.assertions.handle({ result: 'reused' })
  const signedBy = (key: AssertionKey) =>
    createAssertions({ settings, sign: createSigner(key, reports), reused, nowMs: deps.nowMs })
  let keys = readKeys(deps.config)
  let assertions = signedBy(keys.first)
  deps.onReload(next => {
    const read = readKeys(next)
    return () => {
      const { kid } = read.first.publicKey
      // With the same key, earlier assertions are still used.
      if (kid !== keys.first.publicKey.kid) {
        assertions = signedBy(read.first)
        deps.logger.info({ kid }, 'assertion signing key changed')
      }
      keys = read
    }
  })
  return {
    assertionFor: (grant, target) => assertions.assertionFor(grant, target),
    publicKeys: () => ({ keys: keys.publicKeys }),
  }
}

function readSettings({ upstream }: Config): AssertionSettings {
  const { issuer, audience, lifetimeSeconds, bind } = upstream.assertion
  if (issuer === undefined || audience === undefined)
    throw new Error('upstream.assertion.issuer and upstream.assertion.audience are required')
  return { issuer, audience, lifetimeSeconds, bind }
}

function readKeys({ upstream }: Config): Keys {
  const keys = upstream.assertion.keyFiles.map((file, index) => {
    const key = parseAssertionKey(readNamedFile(file, `upstream.assertion.keyFiles, at ${index},`))
    if (typeof key !== 'string') return key
    throw new Error(`upstream.assertion.keyFiles, at ${index}: names a file that ${key}`)
  })
  const [first] = keys
  if (first === undefined) throw new Error('upstream.assertion.keyFiles: names no file')
  return { first, publicKeys: keys.map(({ publicKey }) => publicKey) }
}

function createReports({ metrics, logger, clock }: AssertionDeps): SigningReports {
  return {
    signed: metrics.assertions.handle({ result: 'signed' }),
    failed: metrics.assertions.handle({ result: 'failed' }),
    seconds: metrics.assertionSigning.handle({}),
    failures: new FailureLog('assertion signing', logger, clock),
    monotonicMs: () => clock.monotonicMs(),
  }
}

/** Keys whose assertion is reused; for others one is signed at each request. About 1 KiB each. */
const MAX_REUSED = 16_384

/** Tells the upstream which key a request was made with, in a form that it can verify. */
export interface Assertions {
  /**
   * @param target path and query that the upstream receives
   * @returns the assertion at once if one is reused, else when it is signed; rejects if it cannot be signed
   */
  assertionFor(grant: KeyGrant, target: string): string | Promise<string>
}

interface AssertionParts {
  readonly settings: AssertionSettings
  readonly sign: SignAssertion
  readonly reused: CounterHandle
  /** Milliseconds since the epoch. */
  readonly nowMs: () => number
}

export function createAssertions(parts: AssertionParts): Assertions {
  return parts.settings.bind === 'request' ? new RequestAssertions(parts) : new KeyAssertions(parts)
}

/** One assertion for each request. */
class RequestAssertions implements Assertions {
  readonly #parts: AssertionParts

  constructor(parts: AssertionParts) {
    this.#parts = parts
  }

  assertionFor(grant: KeyGrant, target: string): Promise<string> {
    const { settings, sign, nowMs } = this.#parts
    return sign(assertionClaims(settings, grant, target, nowMs()))
  }
}

interface SignedAssertion {
  readonly grant: KeyGrant
  readonly issuedAtMs: number
  /** A promise while it is being signed: concurrent requests of a key share it. */
  assertion: string | Promise<string>
}

/** One assertion for all requests of a key within half of its life. */
class KeyAssertions implements Assertions {
  readonly #parts: AssertionParts
  readonly #byKey = new LRUCache<string, SignedAssertion>(atMost(MAX_REUSED))

  constructor(parts: AssertionParts) {
    this.#parts = parts
  }

  assertionFor(grant: KeyGrant): string | Promise<string> {
    const { settings, reused, nowMs: readClock } = this.#parts
    const nowMs = readClock()
    const signed = this.#byKey.get(grant.id)
    if (signed === undefined || !isReusable(signed, grant, nowMs, settings.lifetimeSeconds)) {
      return this.#renew(grant, nowMs)
    }
    reused.inc()
    return signed.assertion
  }

  #renew(grant: KeyGrant, nowMs: number): Promise<string> {
    const { settings, sign } = this.#parts
    const claims = assertionClaims(settings, grant, null, nowMs)
    const signing = sign(claims)
    const entry: SignedAssertion = { grant, issuedAtMs: claims.iat * 1000, assertion: signing }
    this.#byKey.set(grant.id, entry)
    signing.then(
      assertion => {
        entry.assertion = assertion
      },
      () => {
        // The next request tries again.
        if (this.#byKey.get(grant.id) === entry) this.#byKey.delete(grant.id)
      },
    )
    return signing
  }
}

export interface AssertionSettings {
  readonly issuer: string
  readonly audience: string
  readonly lifetimeSeconds: number
  readonly bind: 'key' | 'request'
}

export interface AssertionClaims {
  readonly iss: string
  readonly aud: string
  readonly sub: string
  readonly workspace_id: string
  /** RFC 9068, section 2.2.3: separated by spaces. */
  readonly scope: string
  readonly iat: number
  readonly exp: number
  /** Method and target of the one request that the assertion is for; both only with `bind: request`. */
  readonly htm?: 'GET'
  readonly htu?: string
}

/**
 * @param target path and query that the upstream receives; null if the assertion is for any request of the key
 * @param nowMs milliseconds since the epoch
 */
export function assertionClaims(
  { issuer, audience, lifetimeSeconds }: AssertionSettings,
  grant: KeyGrant,
  target: string | null,
  nowMs: number,
): AssertionClaims {
  // Rounded down: a verifier whose clock is a little late must not see a time in the future.
  const iat = Math.floor(nowMs / 1000)
  return {
    iss: issuer,
    aud: audience,
    sub: grant.id,
    workspace_id: grant.workspaceId,
    scope: grant.scopes.join(' '),
    iat,
    exp: iat + lifetimeSeconds,
    ...(target === null ? {} : { htm: 'GET', htu: target }),
  }
}

/**
 * Whether an assertion may be used again: until half of its life has passed, so that the upstream always has the other half
 * to verify it. After a step of the clock in either direction a new one is signed.
 */
export function isReusable(
  signed: { readonly grant: KeyGrant; readonly issuedAtMs: number },
  grant: KeyGrant,
  nowMs: number,
  lifetimeSeconds: number,
): boolean {
  const ageMs = nowMs - signed.issuedAtMs
  return ageMs >= 0 && ageMs < lifetimeSeconds * 500 && hasSameClaims(signed.grant, grant)
}

function hasSameClaims(one: KeyGrant, other: KeyGrant): boolean {
  if (one === other) return true
  return (
    one.id === other.id &&
    one.version === other.version &&
    one.workspaceId === other.workspaceId &&
    one.scopes.join(' ') === other.scopes.join(' ')
  )
}

/** Signing takes less than a millisecond, but waits for a thread, which slow name resolution may occupy. */
const DEADLINE_MS = 5_000

interface SigningReports {
  readonly signed: CounterHandle
  readonly failed: CounterHandle
  readonly seconds: HistogramHandle
  readonly failures: Pick<FailureLog, 'failed' | 'succeeded'>
  /** Monotonic, ms. */
  readonly monotonicMs: () => number
}

/** Signs outside of the event loop. */
type SignAssertion = (claims: AssertionClaims) => Promise<string>

export function createSigner(
  { privateKey, publicKey }: AssertionKey,
  reports: SigningReports,
): SignAssertion {
  const header = { alg: publicKey.alg, typ: 'JWT', kid: publicKey.kid }
  return async claims => {
    const beganMs = reports.monotonicMs()
    try {
      const signing = new SignJWT({ ...claims }).setProtectedHeader(header).sign(privateKey)
      const assertion = await withinDeadline(signing, DEADLINE_MS, () => {
        throw new Error(`not signed within ${DEADLINE_MS} ms`)
      })
      reports.signed.inc()
      reports.seconds.observe((reports.monotonicMs() - beganMs) / 1000)
      reports.failures.succeeded()
      return assertion
    } catch (error) {
      reports.failed.inc()
      reports.failures.failed(asError(error))
      throw error
    }
  }
}
