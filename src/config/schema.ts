import { type Static, Type } from 'typebox'
import { SCOPE_TOKEN } from '../domain/scope.ts'
import { consolePlane } from './console-schema.ts'
import { limits } from './limits-schema.ts'
import { operations } from './operations-schema.ts'
import { ROUTE_NAME, route } from './route-schema.ts'
import {
  circuit,
  file,
  host,
  httpUrl,
  mapOf,
  milliseconds,
  optional,
  port,
  seconds,
  secret,
  section,
} from './schema-parts.ts'
import { keyService, redis } from './store-schema.ts'

/**
 * Every setting once: type, bounds, unit, one line of documentation. The defaults stand in `config/default.yaml`.
 * `secret` settings may come from a file, are never printed, and never logged.
 */
const gateway = section({
  host: host('Address that the public API listens on'),
  port: port('Port of the public API; 0 takes a free one'),
  maxInFlight: Type.Integer({
    minimum: 1,
    maximum: 1_000_000,
    description:
      'Requests in flight above which new ones are answered 503 `overloaded`; the last quarter is for workspaces that hold less than a quarter',
  }),
  maxLoopDelayMs: milliseconds(
    'Mean turn of the event loop above which fewer requests are let in, the others answered 503 `overloaded`',
  ),
  maxHeapPercent: Type.Integer({
    minimum: 10,
    maximum: 100,
    description:
      'Part of the heap’s limit, used by what lives long, above which one request at a time is let in (%)',
  }),
  maxConnections: Type.Integer({
    minimum: 1,
    maximum: 1_000_000,
    description: 'Client connections above which new ones are closed at once',
  }),
  trustedProxies: Type.Array(Type.String({ format: 'cidr' }), {
    maxItems: 256,
    description: 'Addresses or CIDRs of proxies whose `X-Forwarded-*` are believed',
  }),
  headersTimeoutMs: milliseconds(
    'Time a client has to send the head of a request, and in which it must read something of its answers',
    100,
  ),
  keepAliveTimeoutMs: milliseconds('Idle time after which a client connection is closed', 100),
  requestHeaders: Type.Array(Type.String({ format: 'forwardable-header' }), {
    maxItems: 64,
    description: 'Headers of the client that reach the upstream',
  }),
  responseHeaders: Type.Array(Type.String({ format: 'forwardable-header' }), {
    maxItems: 64,
    description: 'Headers of the upstream that reach the client',
  }),
})

const upstream = section({
  url: optional(httpUrl('Address of the workspace/files service; a path in it is put before each route’s')),
  headers: mapOf(
    '^[A-Za-z0-9-]{1,128}$',
    Type.Union([
      Type.String({ pattern: '^[\\x21-\\x7e]([\\x20-\\x7e]*[\\x21-\\x7e])?$' }),
      section({ file: file('File that holds the value') }),
    ]),
    { description: 'Fixed headers added to each request; a value, or `{ file: … }`', ...secret },
  ),
  addresses: Type.Array(Type.String({ format: 'host-and-port' }), {
    maxItems: 64,
    description:
      'Where its servers are (`host:port`), if not at the host and port of `upstream.url`, whose name stays the one asked for',
  }),
  connections: Type.Integer({
    minimum: 1,
    maximum: 10_000,
    description:
      'Connections kept to the upstream; a workspace that holds more than a quarter gives some up to others that wait',
  }),
  queue: section({
    maxRequests: Type.Integer({
      minimum: 0,
      maximum: 1_000_000,
      description:
        'Requests that may wait for a connection; further ones are answered 503 `overloaded`, those of the workspace with the most first',
    }),
    maxWaitMs: milliseconds('Time a request may wait for a connection'),
  }),
  connectTimeoutMs: milliseconds('Time for a connection to be made'),
  headersTimeoutMs: milliseconds('Time from asking to the upstream’s answer headers, waiting included'),
  bodyIdleTimeoutMs: milliseconds('Time without a byte of the answer’s body'),
  totalTimeoutMs: milliseconds('Time for the whole answer'),
  circuit: circuit(
    'Failed connections and time-outs in a row after which the upstream is not asked for a while',
    'How long it is not asked before one request tries it again',
    3_600_000,
  ),
  cache: section({
    maxBytes: Type.Integer({
      minimum: 0,
      maximum: 16_000_000_000,
      description:
        'Memory for answers on routes with `shareAnswers`, as far as the upstream’s `Cache-Control` allows; 0 keeps none (bytes)',
    }),
  }),
  tls: section({
    caFile: optional(file('Certificate authority of the upstream (PEM)')),
    certFile: optional(file('Client certificate shown to the upstream (PEM)')),
    keyFile: optional(file('Its private key (PEM)')),
  }),
})

const keys = section({
  format: Type.Union([Type.Literal('signed'), Type.Literal('opaque')], {
    description: '`opaque` switches the check of form and MAC off, for keys that another service issued',
  }),
  prefix: Type.String({
    pattern: '^[A-Za-z][A-Za-z0-9_-]{0,31}$',
    description: 'What every key begins with',
  }),
  signingSecrets: Type.Array(Type.String({ format: 'signing-secret' }), {
    maxItems: 8,
    description: 'Base64 of at least 32 bytes each; the first signs, all verify',
    ...secret,
  }),
  memory: section({
    ttlSeconds: seconds('Time a record in memory is trusted before it is verified again', 0, 3600),
    absentTtlSeconds: seconds('Time that "no such key" is remembered', 0, 60),
    maxEntries: Type.Integer({ minimum: 1, maximum: 10_000_000, description: 'Records kept in memory' }),
  }),
  staleSeconds: seconds('Time a good record outlives its last verification while nobody answers', 0, 86_400),
  usageSeconds: seconds(
    'Time between reports to the key service of when keys were last used; 0 is never',
    0,
    3600,
  ),
})

export const configSchema = section({
  gateway,
  console: consolePlane,
  ops: operations.ops,
  upstream,
  redis,
  keyService,
  keys,
  limits,
  database: section({
    url: Type.String({
      format: 'database-url',
      description:
        'The console’s system of record: `sqlite:FILE`, or `postgres://…` for more than one console',
      ...secret,
    }),
  }),
  drain: operations.drain,
  reload: operations.reload,
  metrics: operations.metrics,
  tracing: operations.tracing,
  log: operations.log,
  scopes: mapOf(SCOPE_TOKEN.source, Type.String({ minLength: 1, maxLength: 200 }), {
    description:
      'Scopes that a key may have, each with what it grants in words; added to the defaults, of which `name: null` removes one',
  }),
  routes: mapOf(ROUTE_NAME, route, {
    minProperties: 1,
    maxProperties: 200,
    description:
      'Endpoints of the public API, by name; added to the defaults, of which `name: null` removes one',
  }),
})

type Declared = Static<typeof configSchema>

/** The effective settings, checked; values that stood in files are read, and routes know their names. */
export type Config = Omit<Declared, 'upstream' | 'routes'> & {
  upstream: Omit<Declared['upstream'], 'headers'> & { headers: Record<string, string> }
  routes: ({ name: string } & Static<typeof route>)[]
}
