import {
  bearerTokens,
  boolean,
  EVERY_ADDRESS,
  file,
  host,
  httpUrl,
  integer,
  list,
  milliseconds,
  oneOf,
  optional,
  port,
  seconds,
  secretText,
  section,
  text,
} from './schema-builders.ts'

const THIRTY_DAYS_SECONDS = 2_592_000

const internal = section({
  host: host(
    EVERY_ADDRESS,
    'Address of the internal listener, where gateways look up keys; only they should reach it',
  ),
  port: port(8082, 'Port of the internal listener'),
  maxConnections: integer({
    default: 4096,
    minimum: 1,
    maximum: 1_000_000,
    description:
      'Connections of gateways at once, each of which opens up to 8; beyond, a new one replaces one without a complete request, or closes if there is none',
  }),
  tls: section({
    certFile: optional(
      file('Certificate of the internal listener (PEM); without it the listener speaks plain HTTP'),
    ),
    keyFile: optional(file('Private key of that certificate (PEM)')),
    clientCaFile: optional(
      file('Certificate authority of the gateways (PEM); if it is set, each must present a certificate'),
    ),
  }),
})

const oidc = section({
  issuer: optional(
    httpUrl(
      'Issuer identifier of the OpenID Connect provider; register `{console.publicUrl}/sign-in/callback` there as redirect URI',
    ),
  ),
  clientId: optional(
    text({ minLength: 1, maxLength: 512, description: 'Client id of the console at the provider' }),
  ),
  clientSecret: optional(
    secretText({ description: 'Client secret; none for a public client (PKCE is always used)' }),
  ),
  tokenEndpointAuthMethod: optional(
    oneOf(['client_secret_basic', 'client_secret_post'], {
      description:
        'How the client secret is sent: in HTTP Basic or in the form; without it as the provider’s metadata says, which prefers HTTP Basic if both are listed',
    }),
  ),
  scopes: list(text({ format: 'scope' }), {
    default: ['profile', 'email'],
    maxItems: 32,
    description: 'Scopes requested from the provider in addition to `openid`',
  }),
  workspacesClaim: text({
    default: 'workspaces',
    minLength: 1,
    maxLength: 256,
    description:
      'Claim that lists a person’s workspaces, or names the only one; dots select nested claims, as in `resource_access.postern.workspaces`',
  }),
  workspaceNamesClaim: optional(
    text({
      minLength: 1,
      maxLength: 256,
      description:
        'Claim with names of workspaces, which pages show beside the ids: an object from id to name, or its JSON text; without it only ids are shown',
    }),
  ),
  administratorClaim: optional(
    text({
      minLength: 1,
      maxLength: 256,
      description:
        'Claim that makes a person an administrator, who sees every workspace; without it there are none',
    }),
  ),
  administratorValue: text({
    default: 'true',
    minLength: 1,
    maxLength: 256,
    description: 'Value that the administrator claim must equal, or have as a member of its list',
  }),
  viewerClaim: optional(
    text({
      minLength: 1,
      maxLength: 256,
      description:
        'Claim that makes a person a viewer, who sees keys and changes none; without it each person is a manager',
    }),
  ),
  viewerValue: text({
    default: 'viewer',
    minLength: 1,
    maxLength: 256,
    description: 'Value that the viewer claim must equal, or have as a member of its list',
  }),
  caFile: optional(file('Certificate authority of the provider (PEM)')),
  timeoutMs: milliseconds({
    default: 5000,
    minimum: 100,
    description: 'Time after which a request to the provider fails',
  }),
})

const webhook = section({
  url: optional(
    httpUrl('Receives an event when a key is issued, rotated, revoked, about to expire or expired'),
  ),
  secret: optional(
    text({
      format: 'webhook-secret',
      secret: true,
      description: 'Signs the events: base64 of 24 to 64 bytes, with or without `whsec_`',
    }),
  ),
  timeoutMs: milliseconds({
    default: 5000,
    minimum: 100,
    description: 'Time for the receiver to acknowledge an event',
  }),
  caFile: optional(file('Certificate authority of the receiver (PEM)')),
})

export const consoleSettings = section({
  host: host(
    '127.0.0.1',
    'Address of the console, by default reachable from this machine alone; image, chart and `compose.yaml` set `::`',
  ),
  port: port(8081, 'Port of the console'),
  internal,
  adminToken: optional(
    bearerTokens({
      environment: 'POSTERN_ADMIN_TOKEN',
      description:
        'Bearer tokens of programs that use the admin API, separated by commas; use at least 32 random characters for each',
    }),
  ),
  gatewayUrl: optional(
    httpUrl('Address of the public API, for the commands and the reference that the pages show'),
  ),
  publicUrl: optional(
    httpUrl(
      'Address of the console in browsers, such as `https://console.example.com`; requests to any other are rejected. http only on this machine',
    ),
  ),
  trustedProxies: list(text({ format: 'cidr' }), {
    default: [],
    maxItems: 256,
    description:
      'Addresses or CIDRs of proxies whose `X-Forwarded-For` names the client, in the audit log and for the limits on sign-ins and wrong tokens',
  }),
  maxConnections: integer({
    default: 1000,
    minimum: 1,
    maximum: 1_000_000,
    description:
      'Client connections at once; beyond, a new one replaces one without a complete request, or closes if there is none',
  }),
  maxConnectionsPerAddress: integer({
    default: 256,
    minimum: 1,
    maximum: 1_000_000,
    description: 'The same for one IPv4 address or IPv6 /64, `console.trustedProxies` aside',
  }),
  failedTokensPerMinute: integer({
    default: 60,
    minimum: 1,
    maximum: 100_000,
    description:
      'Requests with a wrong token that one client address may make in a minute, at each console; further ones get 429. A good token always works',
  }),
  signInsPerMinute: integer({
    default: 60,
    minimum: 1,
    maximum: 100_000,
    description: 'Sign-in attempts that one client address may make in a minute, at each console',
  }),
  triedRequestsPerMinute: integer({
    default: 30,
    minimum: 0,
    maximum: 10_000,
    description:
      'Requests that one person may send from the API reference in a minute, at each console, which forwards them to `console.gatewayUrl`; 0 takes the buttons away, and the console forwards nothing',
  }),
  session: section({
    idleSeconds: seconds({
      default: 3600,
      minimum: 60,
      maximum: THIRTY_DAYS_SECONDS,
      description: 'Time without a request after which a session ends',
    }),
    absoluteSeconds: seconds({
      default: 43_200,
      minimum: 60,
      maximum: THIRTY_DAYS_SECONDS,
      description:
        'Time after which a session ends in any case; changed claims of a person take effect by then',
    }),
    maxPerPerson: integer({
      default: 20,
      minimum: 1,
      maximum: 1000,
      description: 'Sessions that a person may have at once; a further one ends the oldest',
    }),
  }),
  oidc,
  webhook,
})

/** Reports of leaked keys, which the console receives. */
export const leaks = section({
  enabled: boolean({
    default: false,
    description:
      'Receives reports of leaked keys on the console’s public port: `POST /leaks` from GitHub, `POST /leaks/report` from any client that has found a key',
  }),
  action: oneOf(['revoke', 'report'], {
    default: 'revoke',
    description:
      '`revoke`: a reported key is revoked at once. `report`: it keeps working; audit log, webhook and the page of the key show the report',
  }),
  reportsPerMinute: integer({
    default: 60,
    minimum: 1,
    maximum: 100_000,
    description:
      'Reports that one client address may send in a minute, at each console; further ones get 429. Reports with a good signature are not limited',
  }),
  github: section({
    keysUrl: {
      ...httpUrl('Where the console reads the public keys that sign GitHub’s reports'),
      default: 'https://api.github.com/meta/public_keys/secret_scanning',
    },
    keysFile: optional(
      file(
        'File with the content of that address, for a console that cannot reach it; replaces `leaks.github.keysUrl`',
      ),
    ),
    caFile: optional(file('Certificate authority of `leaks.github.keysUrl` (PEM)')),
    timeoutMs: milliseconds({
      default: 5000,
      minimum: 100,
      description: 'Time after which reading the public keys fails',
    }),
  }),
})

/** Webhooks that workspaces set themselves. The operator's own is `console.webhook`. */
export const webhooks = section({
  workspaces: section({
    enabled: boolean({
      default: false,
      description: 'Lets managers of a workspace set a webhook for events of its keys',
    }),
    allowedCidrs: list(text({ format: 'cidr' }), {
      default: [],
      maxItems: 256,
      description: 'Addresses or CIDRs of receivers beside public addresses, such as a private network',
    }),
    deniedCidrs: list(text({ format: 'cidr' }), {
      default: [],
      maxItems: 256,
      description: 'Addresses or CIDRs that must not receive events, such as public addresses of your own',
    }),
    allowHttp: boolean({
      default: false,
      description: 'Accepts addresses with http:, over which others can read events',
    }),
    timeoutMs: milliseconds({
      default: 5000,
      minimum: 100,
      maximum: 10_000,
      description: 'Time for a receiver to acknowledge an event',
    }),
  }),
})
