import { compactVerify, createRemoteJWKSet, customFetch, errors } from 'jose'
import * as oidc from 'openid-client'
import type { RequestInit } from 'undici'
import type { Config } from '../../config/schema/schema.ts'
import { readAuthorities } from '../../config/setting-files.ts'
import type { Clock } from '../../domain/clock.ts'
import type { ProxySettings } from '../../domain/proxy.ts'
import { type ControlLogger, describeError } from '../../observability/control-logger.ts'
import { OutgoingClient } from '../../outgoing/outgoing-client.ts'
import type { Person } from '../platform/access/principal.ts'
import { returnPath as checkReturnPath } from '../platform/html/paths.ts'
import { type ClaimNames, type Claims, hasClaims, readPerson } from './claims.ts'
import {
  explainProviderError,
  explainUserInfoError,
  SignInError,
  throwProviderUnavailable,
} from './sign-in-error.ts'

/** Lifetime of cached metadata. */
const METADATA_TTL_MS = 3_600_000
/** Tolerated difference between the provider's clock and ours. */
const CLOCK_TOLERANCE_SECONDS = 30
/** Metadata, keys and tokens are a few KiB. */
const MAX_RESPONSE_BYTES = 1024 * 1024
const KEYS_TTL_MS = 300_000
/** The provider is asked again for a token that none of its known keys signed, at most once in this time. */
const ASK_AGAIN_MS = 5_000

/** How long a person may take at the provider. */
export const SIGN_IN_ATTEMPT_SECONDS = 600
/** Tolerated clock difference between the console that starts an attempt and the one that completes it. */
const ATTEMPT_CLOCK_TOLERANCE_MS = 60_000
const RANDOM = /^[A-Za-z0-9_-]{20,128}$/

type TokenEndpointAuthMethod = NonNullable<Config['console']['oidc']['tokenEndpointAuthMethod']>

interface ProviderSettings extends ClaimNames {
  readonly issuer: string
  readonly clientId: string
  readonly clientSecret?: string | undefined
  readonly tokenEndpointAuthMethod?: TokenEndpointAuthMethod | undefined
  readonly scopes: readonly string[]
  readonly caFile?: string | undefined
  readonly timeoutMs: number
}

export interface Provider {
  /**
   * Starts signing in: where to redirect the browser, and what it must bring back.
   * @param returnPath a path of our own, to go to afterwards
   */
  begin(returnPath: string): Promise<{ readonly address: string; readonly attempt: SignInAttempt }>
  /**
   * Completes signing in.
   * @param address the callback URL as requested by the browser, under the public URL
   * @throws SignInError
   */
  finish(address: URL, attempt: SignInAttempt): Promise<Person>
  stop(): Promise<void>
}

/**
 * Binds the provider's response to the browser that started signing in. It lives in a cookie only, so that attempts cost the
 * console no memory. The browser's owner may read or change it: the provider's response then no longer matches.
 */
interface SignInAttempt {
  readonly state: string
  readonly nonce: string
  /** PKCE (RFC 7636). */
  readonly verifier: string
  /** Local path to return to. */
  readonly returnPath: string
  readonly startedAtMs: number
}

interface ProviderParts {
  readonly redirectUri: string
  readonly clock: Clock
  readonly logger: ControlLogger
  readonly proxies: ProxySettings
}

/** What the provider's metadata says. */
interface Discovered {
  readonly config: oidc.Configuration
  readonly verifySignature: VerifySignature
}

/** Sends nothing to the provider before the first sign-in: the console starts without it. */
export function createProvider(settings: ProviderSettings, parts: ProviderParts): Provider {
  const { redirectUri, clock, logger, proxies } = parts
  const http = createProviderFetch(settings, proxies)
  const metadata = cacheMetadata(() => discover(settings, http, clock), clock, logger)
  const scope = [...new Set(['openid', ...settings.scopes])].join(' ')

  return {
    async begin(returnPath) {
      const { config } = await metadata().catch(throwProviderUnavailable)
      const verifier = oidc.randomPKCECodeVerifier()
      const attempt = {
        state: oidc.randomState(),
        nonce: oidc.randomNonce(),
        verifier,
        returnPath,
        startedAtMs: clock.wallMs(),
      }
      const address = oidc.buildAuthorizationUrl(config, {
        redirect_uri: redirectUri,
        scope,
        state: attempt.state,
        nonce: attempt.nonce,
        code_challenge: await oidc.calculatePKCECodeChallenge(verifier),
        code_challenge_method: 'S256',
      })
      return { address: address.href, attempt }
    },
    async finish(address, attempt) {
      const discovered = await metadata().catch(throwProviderUnavailable)
      const claims = await redeem(discovered, address, attempt, settings).catch(explainProviderError)
      const person = readPerson(claims, settings)
      if (person === null) throw new SignInError('invalid', 'the id token has no valid sub')
      return person
    },
    stop: () => http.stop(),
  }
}

async function discover(
  settings: ProviderSettings,
  { fetch }: ProviderFetch,
  clock: Clock,
): Promise<Discovered> {
  const { issuer, clientId, clientSecret, tokenEndpointAuthMethod, timeoutMs } = settings
  const isPlain = issuer.startsWith('http:')
  const config = await oidc.discovery(
    new URL(issuer),
    clientId,
    { [oidc.clockTolerance]: CLOCK_TOLERANCE_SECONDS },
    authenticationWith(clientSecret, tokenEndpointAuthMethod),
    {
      execute: isPlain ? [oidc.allowInsecureRequests] : [],
      timeout: timeoutMs / 1000,
      [oidc.customFetch]: fetch,
    },
  )
  const jwksUri = URL.parse(config.serverMetadata().jwks_uri ?? '')
  if (jwksUri === null || !(isPlain || jwksUri.protocol === 'https:')) {
    throw new Error('the metadata of the provider has no jwks_uri of its scheme')
  }
  // Verified also over TLS: a proxy in between may terminate it.
  return { config, verifySignature: createSignatureVerifier(jwksUri, { fetch, timeoutMs, clock }) }
}

/** As configured, or as the provider's metadata says; by default HTTP Basic (OpenID Connect Discovery 1.0, section 3). */
function authenticationWith(
  secret: string | undefined,
  method: TokenEndpointAuthMethod | undefined,
): oidc.ClientAuth {
  if (secret === undefined) return oidc.None()
  const [basic, post] = [oidc.ClientSecretBasic(secret), oidc.ClientSecretPost(secret)]
  return (server, ...rest) => {
    const supported = method === undefined ? server.token_endpoint_auth_methods_supported : [method]
    const isBasic = (supported ?? ['client_secret_basic']).includes('client_secret_basic')
    return (isBasic ? basic : post)(server, ...rest)
  }
}

async function redeem(
  { config, verifySignature }: Discovered,
  address: URL,
  { state, nonce, verifier }: SignInAttempt,
  settings: ProviderSettings,
): Promise<Claims> {
  const tokens = await oidc.authorizationCodeGrant(config, address, {
    expectedState: state,
    expectedNonce: nonce,
    pkceCodeVerifier: verifier,
    idTokenExpected: true,
  })
  const claims = tokens.claims()
  if (claims === undefined || tokens.id_token === undefined) {
    throw new SignInError('invalid', 'the provider sent no id token')
  }
  await verifySignature(tokens.id_token)
  // OpenID Connect Core 1.0, section 3.1.3.7. The library checks a token of several audiences alone.
  if (claims['azp'] !== undefined && claims['azp'] !== settings.clientId) {
    throw new SignInError('invalid', 'the id token is for another client: azp is not console.oidc.clientId')
  }
  if (hasClaims(claims, settings) || config.serverMetadata().userinfo_endpoint === undefined) return claims
  const more = await oidc.fetchUserInfo(config, tokens.access_token, claims.sub).catch(explainUserInfoError)
  return { ...more, ...claims }
}

/** Caches metadata with one fetch at a time; a failed refresh keeps the old metadata. */
function cacheMetadata(
  fetchMetadata: () => Promise<Discovered>,
  clock: Clock,
  logger: ControlLogger,
): () => Promise<Discovered> {
  let cached: { readonly found: Discovered; readonly atMs: number } | null = null
  let pending: Promise<Discovered> | null = null

  async function refresh(): Promise<Discovered> {
    try {
      const found = await fetchMetadata()
      cached = { found, atMs: clock.monotonicMs() }
      return found
    } catch (error) {
      if (cached === null) throw error
      logger.warn({ cause: describeError(error) }, 'provider metadata refresh failed, using cached metadata')
      return cached.found
    } finally {
      pending = null
    }
  }

  return async () => {
    if (cached !== null && clock.monotonicMs() < cached.atMs + METADATA_TTL_MS) return cached.found
    pending ??= refresh()
    return pending
  }
}

interface ProviderFetch {
  readonly fetch: oidc.CustomFetch
  stop(): Promise<void>
}

/** HTTP to the provider, with its own CA if configured, bounded in time and size. */
function createProviderFetch(
  { caFile, timeoutMs }: { readonly caFile?: string | undefined; readonly timeoutMs: number },
  proxies: ProxySettings,
): ProviderFetch {
  const client = new OutgoingClient({
    proxies,
    ...readAuthorities(caFile, 'console.oidc.caFile'),
    connectTimeoutMs: timeoutMs,
    headersTimeout: timeoutMs,
    bodyTimeout: timeoutMs,
    maxResponseSize: MAX_RESPONSE_BYTES,
  })
  return {
    // undici and Node declare the same Response and options twice.
    fetch: async (url, options) => (await client.fetch(url, options as RequestInit)) as unknown as Response,
    stop: () => client.stop(),
  }
}

/** @throws unless one of the provider's keys signed the token */
type VerifySignature = (token: string) => Promise<void>

/** A provider may change its keys at any time, and sign with a new one at once. */
function createSignatureVerifier(
  jwksUri: URL,
  { fetch, timeoutMs, clock }: Pick<ProviderFetch, 'fetch'> & { timeoutMs: number; clock: Clock },
): VerifySignature {
  const keys = createRemoteJWKSet(jwksUri, {
    [customFetch]: (url, options) =>
      fetch(url, { ...options, body: undefined, headers: plainHeaders(options) }),
    timeoutDuration: timeoutMs,
    cacheMaxAge: KEYS_TTL_MS,
    // Its own pause begins with any request, so a key that changes right after it would not be found.
    cooldownDuration: Number.POSITIVE_INFINITY,
  })
  let again: { readonly atMs: number; readonly done: Promise<void> } | null = null

  function askAgain(): Promise<void> {
    const nowMs = clock.monotonicMs()
    if (again === null || nowMs >= again.atMs + ASK_AGAIN_MS) again = { atMs: nowMs, done: keys.reload() }
    return again.done
  }

  return async token => {
    try {
      await compactVerify(token, keys)
    } catch (error) {
      if (!isOfUnknownKey(error)) throw error
      await askAgain()
      await compactVerify(token, keys)
    }
  }
}

/** A wrong signature, too: keys need no id, and some providers use one for all. */
function isOfUnknownKey(error: unknown): boolean {
  return error instanceof errors.JWKSNoMatchingKey || error instanceof errors.JWSSignatureVerificationFailed
}

function plainHeaders({ headers }: { readonly headers: Headers }): Record<string, string> {
  return Object.fromEntries(headers)
}

export function encodeSignInAttempt(attempt: SignInAttempt): string {
  return Buffer.from(JSON.stringify(attempt)).toString('base64url')
}

/** @returns null if it is malformed or expired */
export function decodeSignInAttempt(cookie: string | undefined, nowMs: number): SignInAttempt | null {
  const { state, nonce, verifier, returnPath, startedAtMs } = parseAttempt(cookie ?? '')
  if (![state, nonce, verifier].every(isRandom) || typeof startedAtMs !== 'number') return null
  if (
    nowMs < startedAtMs - ATTEMPT_CLOCK_TOLERANCE_MS ||
    nowMs >= startedAtMs + SIGN_IN_ATTEMPT_SECONDS * 1000
  )
    return null
  return {
    state: String(state),
    nonce: String(nonce),
    verifier: String(verifier),
    returnPath: checkReturnPath(returnPath),
    startedAtMs,
  }
}

function isRandom(text: unknown): boolean {
  return typeof text === 'string' && RANDOM.test(text)
}

function parseAttempt(cookie: string): { readonly [Name in keyof SignInAttempt]?: unknown } {
  try {
    return JSON.parse(Buffer.from(cookie, 'base64url').toString('utf8')) ?? {}
  } catch {
    return {}
  }
}
