import { createPrivateKey, generateKeyPairSync, type KeyObject, sign } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import Provider, { type AccountClaims } from 'oidc-provider'
import { portOf } from './port-of.ts'

/** One for all providers of a file, because making one takes a large part of a second. */
const { privateKey: SIGNING_KEY } = generateKeyPairSync('rsa', { modulusLength: 2048 })

export const CLIENT_ID = 'postern-console'
export const CLIENT_SECRET = 'a-client-secret-of-the-tests'

export interface IdToken {
  header: Record<string, unknown>
  claims: Record<string, unknown>
}

type AuthenticationMethod = 'client_secret_basic' | 'client_secret_post'

export interface IdentityProviderOptions {
  readonly redirectUri: string
  /** Whether claims are in the id token. If not, only the userinfo endpoint returns them, as most providers do. */
  readonly claimsInIdToken?: boolean
  readonly publicClient?: boolean
  /** Serves https with this certificate. */
  readonly tls?: { readonly cert: Buffer; readonly key: Buffer }
  /** How the client must send its secret. */
  readonly authentication?: AuthenticationMethod
  /** The methods that the metadata lists; by default that one alone. */
  readonly listedMethods?: readonly AuthenticationMethod[]
}

/** A real OpenID provider that signs every visitor in as `person`. A test can make it misbehave. */
export class IdentityProvider {
  readonly issuer: string
  readonly isPublicClient: boolean
  readonly #server: Server
  readonly #provider: Provider
  readonly #key: { readonly kid: string; readonly pem: string }
  /** A key that it has changed to. */
  #changed: { readonly kid: string | undefined; readonly key: KeyObject } | null = null

  /** The user whom the provider signs in. */
  person: AccountClaims = { sub: 'ada', name: 'Ada Lovelace', workspaces: ['ws_1'] }
  /** The error with which it sends the browser back in place of a code, such as `access_denied`. */
  refusal: string | null = null
  /** Changes an id token before it is signed, or signs it with another key. */
  tamper: ((token: IdToken) => void) | null = null
  signsWithOtherKey = false
  /** Delays every request until it resolves. */
  hold: Promise<void> | null = null
  /** Responds in place of the provider. */
  answer: ((request: IncomingMessage, response: ServerResponse) => boolean) | null = null
  readonly requests: string[] = []

  private constructor(server: Server, options: IdentityProviderOptions) {
    this.#server = server
    this.isPublicClient = options.publicClient === true
    const port = portOf(server)
    this.issuer = `${options.tls === undefined ? 'http' : 'https'}://127.0.0.1:${port}`
    const jwk = { ...SIGNING_KEY.export({ format: 'jwk' }), kid: 'of-the-tests', alg: 'RS256', use: 'sig' }
    this.#key = { kid: 'of-the-tests', pem: String(SIGNING_KEY.export({ format: 'pem', type: 'pkcs8' })) }
    this.#provider = this.#createProvider(options, jwk)
    server.on('request', (request, response) => void this.#serve(request, response))
  }

  static async started(options: IdentityProviderOptions): Promise<IdentityProvider> {
    const made = options.tls === undefined ? createServer() : createTlsServer(options.tls)
    const server = made.listen(0, '127.0.0.1')
    await once(server, 'listening')
    return new IdentityProvider(server, options)
  }

  /** Signs with a new key from now on, and publishes it alone. @param kid undefined if its keys have no id */
  changeKey(kid: string | undefined): void {
    this.#changed = { kid, key: generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey }
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections()
    await new Promise(resolve => this.#server.close(resolve))
  }

  #createProvider(options: IdentityProviderOptions, jwk: object): Provider {
    const { redirectUri, claimsInIdToken = true, publicClient = false, authentication } = options
    const listed = options.listedMethods ?? (authentication === undefined ? [] : [authentication])
    const secret = publicClient
      ? { token_endpoint_auth_method: 'none' as const }
      : {
          client_secret: CLIENT_SECRET,
          token_endpoint_auth_method: authentication ?? ('client_secret_basic' as const),
        }
    const provider = new Provider(this.issuer, {
      clients: [{ client_id: CLIENT_ID, redirect_uris: [redirectUri], ...secret }],
      ...(listed.length === 0 ? {} : { clientAuthMethods: [...listed] }),
      jwks: { keys: [jwk] },
      cookies: { keys: ['of the tests'] },
      conformIdTokenClaims: !claimsInIdToken,
      claims: {
        profile: [
          ...['name', 'workspaces', 'workspace_names', 'roles', 'resource_access'],
          'https://postern.example/workspaces',
        ],
      },
      features: { devInteractions: { enabled: false } },
      interactions: { url: (_, { uid }) => `/interaction/${uid}` },
      findAccount: (_, sub) => ({ accountId: sub, claims: () => this.person }),
      ttl: {
        AuthorizationCode: 60,
        AccessToken: 60,
        IdToken: 600,
        Interaction: 600,
        Session: 600,
        Grant: 600,
      },
    })
    provider.use(async (ctx, next) => {
      // The library takes a secret from both places, where other providers insist on the registered one.
      const isBasic = ctx.headers.authorization !== undefined
      if (
        ctx.path === '/token' &&
        authentication !== undefined &&
        isBasic !== (authentication === 'client_secret_basic')
      ) {
        ctx.status = 401
        ctx.body = { error: 'invalid_client' }
        return
      }
      await next()
      const body = ctx.body as { id_token?: string } | undefined
      if (ctx.path === '/token' && body?.id_token !== undefined) body.id_token = this.#tampered(body.id_token)
    })
    return provider
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    this.requests.push(`${request.method} ${request.url?.split('?')[0]}`)
    await this.hold
    if (this.answer?.(request, response)) return
    if (request.url === '/jwks' && this.#changed !== null) return sendKey(response, this.#changed)
    if (request.url?.startsWith('/interaction/')) await this.#interact(request, response)
    else this.#provider.callback()(request, response)
  }

  /** Signs in and consents without a page. */
  async #interact(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { prompt, params, session } = await this.#provider.interactionDetails(request, response)
    if (this.refusal !== null) {
      const refused = { error: this.refusal, error_description: 'refused' }
      return this.#provider.interactionFinished(request, response, refused)
    }
    if (prompt.name === 'login') {
      const login = { accountId: this.person.sub }
      return this.#provider.interactionFinished(request, response, { login })
    }
    const grant = new this.#provider.Grant({
      accountId: session?.accountId ?? this.person.sub,
      clientId: String(params['client_id']),
    })
    grant.addOIDCScope(String(params['scope']))
    const consent = { grantId: await grant.save() }
    return this.#provider.interactionFinished(
      request,
      response,
      { consent },
      { mergeWithLastSubmission: true },
    )
  }

  #tampered(token: string): string {
    if (this.tamper === null && !this.signsWithOtherKey && this.#changed === null) return token
    const [head = '', body = ''] = token.split('.')
    const parsed: IdToken = { header: decoded(head), claims: decoded(body) }
    if (this.#changed !== null) parsed.header['kid'] = this.#changed.kid
    this.tamper?.(parsed)
    const text = `${encoded(parsed.header)}.${encoded(parsed.claims)}`
    const key = this.signsWithOtherKey
      ? generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey
      : (this.#changed?.key ?? createPrivateKey(this.#key.pem))
    return `${text}.${sign('sha256', Buffer.from(text), key).toString('base64url')}`
  }
}

function sendKey(response: ServerResponse, { kid, key }: { kid: string | undefined; key: KeyObject }): void {
  const { kty, n, e } = key.export({ format: 'jwk' })
  response.setHeader('content-type', 'application/json')
  response.end(JSON.stringify({ keys: [{ kty, n, e, kid, alg: 'RS256', use: 'sig' }] }))
}

function decoded(part: string): Record<string, unknown> {
  return JSON.parse(Buffer.from(part, 'base64url').toString()) as Record<string, unknown>
}

function encoded(part: object): string {
  return Buffer.from(JSON.stringify(part)).toString('base64url')
}
