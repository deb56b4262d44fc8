import * as oidc from 'openid-client'
import type { Clock } from '../../domain/clock.ts'
import { type ControlLogger, causeOf } from '../../observability/control-logger.ts'
import type { Attempt } from './attempt.ts'
import { type ClaimNames, type Claims, hasClaims, personOf } from './claims.ts'
import type { Person } from './person.ts'
import { createProviderFetch, type ProviderFetch } from './provider-fetch.ts'
import { explainProviderError, providerIsAway, SignInError } from './sign-in-error.ts'

/** What the provider says of itself is asked for anew after this; its keys are, as soon as an unknown one is used. */
const METADATA_TTL_MS = 3_600_000
/** By how much its clock may differ from ours. */
const CLOCK_TOLERANCE_SECONDS = 30

export interface ProviderSettings extends ClaimNames {
  readonly issuer: string
  readonly clientId: string
  readonly clientSecret?: string | undefined
  readonly scopes: readonly string[]
  readonly caFile?: string | undefined
  readonly timeoutMs: number
}

export interface Provider {
  /**
   * Where to send somebody who wants to sign in, and what their browser has to bring back.
   * @param goal a path of our own, to go to afterwards
   */
  begin(goal: string): Promise<{ readonly address: string; readonly attempt: Attempt }>
  /**
   * Who came back.
   * @param address the whole of it, as the browser asked for it, under the public address
   * @throws SignInError
   */
  finish(address: URL, attempt: Attempt): Promise<Person>
  stop(): Promise<void>
}

/** Nothing is asked of the provider before somebody wants to sign in: the console starts without it. */
export function createProvider(
  settings: ProviderSettings,
  parts: { readonly redirectUri: string; readonly clock: Clock; readonly logger: ControlLogger },
): Provider {
  const { redirectUri, clock, logger } = parts
  const http = createProviderFetch(settings)
  const known = rememberMetadata(() => discover(settings, http), clock, logger)
  const scope = [...new Set(['openid', ...settings.scopes])].join(' ')

  return {
    async begin(goal) {
      const config = await known().catch(providerIsAway)
      const verifier = oidc.randomPKCECodeVerifier()
      const attempt = {
        state: oidc.randomState(),
        nonce: oidc.randomNonce(),
        verifier,
        goal,
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
      const config = await known().catch(providerIsAway)
      const claims = await redeem(config, address, attempt, settings).catch(explainProviderError)
      const person = personOf(claims, settings)
      if (person === null)
        throw new SignInError('invalid', 'the provider named nobody: its sub is of no known form')
      return person
    },
    stop: () => http.stop(),
  }
}

function discover(settings: ProviderSettings, { fetch }: ProviderFetch): Promise<oidc.Configuration> {
  const { issuer, clientId, clientSecret, timeoutMs } = settings
  // Also of what came over TLS: a provider's answers may pass through somebody who ends that.
  const execute = [oidc.enableNonRepudiationChecks]
  if (issuer.startsWith('http:')) execute.push(oidc.allowInsecureRequests)
  return oidc.discovery(
    new URL(issuer),
    clientId,
    { [oidc.clockTolerance]: CLOCK_TOLERANCE_SECONDS },
    authenticationWith(clientSecret),
    { execute, timeout: timeoutMs / 1000, [oidc.customFetch]: fetch },
  )
}

/** As the provider says it wants it; HTTP Basic where it does not say (OpenID Connect Discovery 1.0, section 3). */
function authenticationWith(secret: string | undefined): oidc.ClientAuth {
  if (secret === undefined) return oidc.None()
  const [basic, post] = [oidc.ClientSecretBasic(secret), oidc.ClientSecretPost(secret)]
  return (server, ...rest) => {
    const supported = server.token_endpoint_auth_methods_supported ?? ['client_secret_basic']
    return (supported.includes('client_secret_basic') ? basic : post)(server, ...rest)
  }
}

async function redeem(
  config: oidc.Configuration,
  address: URL,
  { state, nonce, verifier }: Attempt,
  names: ClaimNames,
): Promise<Claims> {
  const tokens = await oidc.authorizationCodeGrant(config, address, {
    expectedState: state,
    expectedNonce: nonce,
    pkceCodeVerifier: verifier,
    idTokenExpected: true,
  })
  const claims = tokens.claims()
  if (claims === undefined) throw new SignInError('invalid', 'the provider sent no id token')
  if (hasClaims(claims, names) || config.serverMetadata().userinfo_endpoint === undefined) return claims
  const more = await oidc.fetchUserInfo(config, tokens.access_token, claims.sub)
  return { ...more, ...claims }
}

/** One question at a time, and the answer kept for a while; for longer where a new one cannot be had. */
function rememberMetadata(
  ask: () => Promise<oidc.Configuration>,
  clock: Clock,
  logger: ControlLogger,
): () => Promise<oidc.Configuration> {
  let kept: { readonly config: oidc.Configuration; readonly atMs: number } | null = null
  let asking: Promise<oidc.Configuration> | null = null

  async function askAnew(): Promise<oidc.Configuration> {
    try {
      const config = await ask()
      kept = { config, atMs: clock.monotonicMs() }
      return config
    } catch (error) {
      if (kept === null) throw error
      logger.warn(
        { cause: causeOf(error) },
        'the provider did not say anew what it is; taking what it said before',
      )
      return kept.config
    } finally {
      asking = null
    }
  }

  return async () => {
    if (kept !== null && clock.monotonicMs() < kept.atMs + METADATA_TTL_MS) return kept.config
    asking ??= askAnew()
    return asking
  }
}
