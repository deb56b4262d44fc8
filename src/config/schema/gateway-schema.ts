import {
  anyOf,
  boolean,
  circuit,
  EVERY_ADDRESS,
  file,
  host,
  httpUrl,
  integer,
  list,
  mapOf,
  milliseconds,
  oneOf,
  optional,
  port,
  section,
  text,
} from './schema-builders.ts'

const check = section({
  host: host(EVERY_ADDRESS, 'Address of the check listener; only the proxy should reach it'),
  port: optional(
    integer({
      minimum: 0,
      maximum: 65_535,
      description:
        'Port of the check listener, which decides for a proxy that forwards requests itself; without it there is none, and 0 picks a free one',
    }),
  ),
  proxy: optional(
    oneOf(['nginx', 'caddy', 'traefik', 'haproxy', 'envoy'], {
      description: 'Kind of that proxy, which decides where the original request is read',
    }),
  ),
  pathPrefix: optional(
    text({
      pattern: '^(/[A-Za-z0-9._~-]+)+$',
      description: '`path_prefix` of Envoy: the path that it writes before the original one',
    }),
  ),
})

export const gateway = section({
  host: host(EVERY_ADDRESS, 'Address of the public API'),
  port: port(8080, 'Port of the public API'),
  maxInFlight: integer({
    default: 1000,
    minimum: 1,
    maximum: 1_000_000,
    description:
      'Requests in flight above which new ones get 503 `overloaded`; a quarter more is for workspaces that hold at most that much',
  }),
  maxLoopDelayMs: milliseconds({
    default: 20,
    description:
      'Mean duration of an event loop turn above which fewer requests are admitted, though never fewer than `upstream.connections`; the rest get 503 `overloaded`',
  }),
  maxHeapPercent: integer({
    default: 90,
    minimum: 10,
    maximum: 100,
    description:
      'Share of the heap limit, in use by long-lived objects, above which one request at a time is admitted (%)',
  }),
  maxConnections: integer({
    default: 10_000,
    minimum: 1,
    maximum: 1_000_000,
    description:
      'Client connections at once; beyond, a new one replaces one without a complete request, or closes if there is none',
  }),
  maxConnectionsPerAddress: optional(
    integer({
      minimum: 1,
      maximum: 1_000_000,
      description:
        'The same for one IPv4 address or IPv6 /64, `gateway.trustedProxies` aside; none by default, because load balancers hold the connections of many clients',
    }),
  ),
  trustedProxies: list(text({ format: 'cidr' }), {
    default: [],
    maxItems: 256,
    description: 'Addresses or CIDRs of proxies whose `X-Forwarded-*` headers are trusted',
  }),
  headersTimeoutMs: milliseconds({
    default: 10_000,
    minimum: 100,
    description:
      'Time for a client to send the head of a request, and in which it must read something of its responses',
  }),
  keepAliveTimeoutMs: milliseconds({
    default: 75_000,
    minimum: 100,
    description:
      'Idle time after which a client connection closes; must exceed the idle time of the load balancer in front (often 60 s)',
  }),
  abortOnClose: boolean({
    default: true,
    description:
      'Whether a client that closes its side while its request waits for the upstream has left: the upstream request is cancelled. Without it, a client that half-closes gets its response',
  }),
  requestHeaders: list(text({ format: 'forwardable-header' }), {
    default: [
      'Accept',
      'Accept-Encoding',
      'Accept-Language',
      'If-None-Match',
      'If-Modified-Since',
      'User-Agent',
      'traceparent',
      'tracestate',
    ],
    maxItems: 64,
    description: 'Request headers that are forwarded to the upstream; all others are dropped',
  }),
  responseHeaders: list(text({ format: 'forwardable-header' }), {
    default: [
      'Content-Type',
      'Content-Encoding',
      'Content-Length',
      'ETag',
      'Last-Modified',
      'Vary',
      'Cache-Control',
      'Age',
      'Link',
      'Retry-After',
    ],
    maxItems: 64,
    description:
      'Response headers that are forwarded to the client; all others are dropped, except the `Content-Encoding` of a body',
  }),
  check,
})

const headerValue = anyOf(
  text({ pattern: '^[\\x21-\\x7e]([\\x20-\\x7e]*[\\x21-\\x7e])?$' }),
  section({ file: text({ minLength: 1 }) }),
)

export const upstream = section({
  url: optional(
    httpUrl(
      'Address of the upstream, required for the gateway; its path is prepended to the path of each route',
    ),
  ),
  headers: mapOf(/^[A-Za-z0-9-]{1,128}$/, headerValue, {
    default: {},
    secret: true,
    description:
      'Headers added to each request to the upstream, such as its service token; each has a value, or `{ file: … }`',
  }),
  addresses: list(text({ format: 'host-and-port' }), {
    default: [],
    maxItems: 64,
    description:
      'Servers of the upstream as `host:port`, if they differ from `upstream.url`, whose host name is still sent and verified; a name with several addresses needs no list',
  }),
  connections: integer({
    default: 128,
    minimum: 1,
    maximum: 10_000,
    description:
      'Maximum number of connections to the upstream; a workspace that holds more than a quarter of them gives way to others that wait',
  }),
  queue: section({
    maxRequests: integer({
      default: 384,
      minimum: 0,
      maximum: 1_000_000,
      description:
        'Requests that may wait for a connection; beyond that, requests of the workspace with the most waiting get 503 `overloaded` first. With 0 none waits, and a workspace that holds all connections gives way to none; with 1 a request that waits gives way to none',
    }),
    maxWaitMs: milliseconds({ default: 5000, description: 'Time that a request may wait for a connection' }),
  }),
  connectTimeoutMs: milliseconds({ default: 1000, description: 'Time to establish a connection' }),
  headersTimeoutMs: milliseconds({
    default: 10_000,
    description: 'Time until the response headers arrive, including the wait for a connection',
  }),
  bodyIdleTimeoutMs: milliseconds({
    default: 10_000,
    description: 'Time without data after which a response body is aborted',
  }),
  totalTimeoutMs: milliseconds({ default: 60_000, description: 'Time for the whole response' }),
  circuit: circuit('the upstream', { failures: 10, openMs: 500, maxOpenMs: 3_600_000 }),
  cache: section({
    maxBytes: integer({
      default: 0,
      minimum: 0,
      maximum: 16_000_000_000,
      description:
        'Size of the response cache for routes with `coalesce`, within the upstream’s `Cache-Control`; a workspace gets at most a quarter, and 0 disables it (bytes)',
    }),
  }),
  assertion: section({
    keyFiles: list(text({ minLength: 1 }), {
      default: [],
      maxItems: 8,
      description:
        'Files of Ed25519 private keys (PKCS #8, PEM). The first signs `X-Postern-Assertion` on each request to the upstream; all public keys are served. Without files there is no assertion',
    }),
    issuer: optional(
      text({ minLength: 1, maxLength: 256, description: '`iss` of assertions: your gateway' }),
    ),
    audience: optional(
      text({ minLength: 1, maxLength: 256, description: '`aud` of assertions: your upstream' }),
    ),
    lifetimeSeconds: integer({
      default: 60,
      minimum: 5,
      maximum: 60,
      description: 'Time from `iat` to `exp`; one is reused for a key until half of it has passed (s)',
    }),
    bind: oneOf(['key', 'request'], {
      default: 'key',
      description:
        'Whether an assertion is for all requests of the key, or for one method and target (`htm`, `htu`) and signed for each request',
    }),
  }),
  tls: section({
    caFile: optional(file('Certificate authority of the upstream (PEM)')),
    certFile: optional(file('Client certificate for the upstream (PEM)')),
    keyFile: optional(file('Private key of that certificate (PEM)')),
  }),
})
