import { Type } from 'typebox'
import {
  bearerToken,
  file,
  host,
  httpUrl,
  milliseconds,
  optional,
  port,
  seconds,
  secret,
  section,
} from './schema-parts.ts'
import { webhook } from './webhook-schema.ts'

const claim = (description: string) => Type.String({ minLength: 1, maxLength: 256, description })

const oidc = section({
  issuer: optional(httpUrl('OpenID Connect provider at which people sign in; its issuer identifier')),
  clientId: optional(
    Type.String({ minLength: 1, maxLength: 512, description: 'What the provider calls this console' }),
  ),
  clientSecret: optional(
    Type.String({
      minLength: 1,
      maxLength: 1024,
      description: 'Its secret there; none for a public client',
      ...secret,
    }),
  ),
  scopes: Type.Array(Type.String({ format: 'scope' }), {
    maxItems: 32,
    description: 'What is asked of the provider, beside `openid`',
  }),
  workspacesClaim: claim(
    'Claim that names a person’s workspaces: a list, or a text parted by spaces; dots lead into nested claims',
  ),
  administratorClaim: optional(
    claim('Claim that makes an administrator, who sees every workspace; without it nobody is one'),
  ),
  administratorValue: claim('What that claim must be, or hold, for it'),
  caFile: optional(file('Certificate authority of the provider (PEM)')),
  timeoutMs: milliseconds('Time after which a request to the provider is given up', 100),
})

const internal = section({
  host: host('Address that the internal listener of the console listens on, where gateways look keys up'),
  port: port('Port of the internal listener; 0 takes a free one'),
  tls: section({
    certFile: optional(
      file('Certificate of the internal listener (PEM); without it the listener speaks plain HTTP'),
    ),
    keyFile: optional(file('Its private key (PEM)')),
    clientCaFile: optional(
      file('Certificate authority of the gateways (PEM); with it, a client certificate is required'),
    ),
  }),
})

export const consolePlane = section({
  host: host('Address that the console listens on'),
  port: port('Port of the console; 0 takes a free one'),
  internal,
  adminToken: optional(
    Type.String({
      ...bearerToken,
      description: 'Bearer token for programs that use the admin API; 32 random characters are a good one',
      environment: 'POSTERN_ADMIN_TOKEN',
      ...secret,
    }),
  ),
  gatewayUrl: optional(
    httpUrl('Address of the public API for integrators, which pages put into commands and the reference'),
  ),
  publicUrl: optional(
    httpUrl(
      'Address of the console in browsers, such as `https://console.example.com`; no other is answered',
    ),
  ),
  trustedProxies: Type.Array(Type.String({ format: 'cidr' }), {
    maxItems: 256,
    description:
      'Addresses or CIDRs of proxies whose `X-Forwarded-For` names the client, for the audit log and the limit on sign-ins',
  }),
  signInsPerMinute: Type.Integer({
    minimum: 1,
    maximum: 100_000,
    description: 'Attempts to sign in that one address may make in a minute, at each console',
  }),
  session: section({
    idleSeconds: seconds('Time without a request after which a session ends', 60, 2_592_000),
    absoluteSeconds: seconds('Time after which a session ends in any case', 60, 2_592_000),
    maxPerPerson: Type.Integer({
      minimum: 1,
      maximum: 1000,
      description: 'Sessions that a person may have at once; the one begun first ends',
    }),
  }),
  oidc,
  webhook,
})
