import { SHORT_NAME } from '../../domain/id-form.ts'
import { SCOPE_TOKEN } from '../../domain/key/key-record.ts'
import type { ResponseSchema } from '../../domain/route/response-schema.ts'
import { consoleSettings, leaks, webhooks } from './console-schema.ts'
import { gateway, upstream } from './gateway-schema.ts'
import { type route, routes } from './route-schema.ts'
import {
  boolean,
  EVERY_ADDRESS,
  host,
  httpUrl,
  integer,
  list,
  mapOf,
  milliseconds,
  number,
  oneOf,
  optional,
  port,
  seconds,
  secretText,
  section,
  text,
  type ValueOf,
} from './schema-builders.ts'
import {
  database,
  keyService,
  keys,
  type RegionRedis,
  redis,
  refusals,
  regionOfGateway,
  regions,
  usage,
} from './store-schema.ts'

/** Each policy costs one Redis command for each request that it applies to, and each name of a policy four metric series. */
const MAX_POLICIES = 16
const MAX_PLANS = 32

const policy = section({
  name: text({
    pattern: SHORT_NAME.source,
    description: 'Name in the `RateLimit` response fields and in metrics',
  }),
  per: oneOf(['workspace', 'key'], {
    description: 'What each window counts: all keys of a workspace, or one key',
  }),
  route: optional(text({ pattern: SHORT_NAME.source, description: 'The one route that is limited' })),
  scope: optional(
    text({
      format: 'scope',
      description: 'Limits the routes that require this scope; without both, all routes',
    }),
  ),
  requests: integer({ minimum: 1, maximum: 1_000_000_000, description: 'Requests that a window allows' }),
  windowSeconds: optional(
    integer({
      minimum: 1,
      maximum: 86_400,
      description: 'Length of a window, which begins with its first request',
    }),
  ),
  window: optional(
    oneOf(['month'], { description: 'Instead of a length: `month` is the calendar month, in UTC' }),
  ),
})

const plan = section({
  policies: list(policy, {
    maxItems: MAX_POLICIES,
    description: 'Its policies, as in `limits.policies`; none are no limits',
  }),
})

const limits = section({
  policies: list(policy, {
    default: [],
    maxItems: MAX_POLICIES,
    description:
      'Rate limits per workspace or per key, for keys without a plan; requests above them get 429 `rate_limited`',
  }),
  plans: mapOf(SHORT_NAME, plan, {
    default: {},
    maxProperties: MAX_PLANS,
    description:
      'Rate limits by plan, such as `free: { policies: […] }`: for keys of a plan they stand in the place of `limits.policies`',
  }),
  replicas: integer({
    default: 1,
    minimum: 1,
    maximum: 10_000,
    description:
      'Number of gateways until the console has said it; each enforces its share of a limit if Redis, where they count together, is unavailable',
  }),
})

const ops = section({
  host: host(EVERY_ADDRESS, 'Address of probes and metrics'),
  port: port(9090, 'Port of probes and metrics'),
})

/** The variables are those that curl, Node and others read, in both cases; of two the lower one wins. */
const outgoing = section({
  httpsProxy: optional(
    secretText({
      format: 'proxy-url',
      environment: 'HTTPS_PROXY',
      description:
        'Proxy for https calls to what lies outside (docs/operate/network.md), with user and password if it asks for them',
    }),
  ),
  httpProxy: optional(
    secretText({
      format: 'proxy-url',
      environment: 'HTTP_PROXY',
      description: 'The same for plain http calls',
    }),
  ),
  noProxy: list(text({ format: 'no-proxy-entry' }), {
    default: [],
    maxItems: 1000,
    environment: 'NO_PROXY',
    description:
      'Hosts that are called directly: names, with or without a leading dot, each with its subdomains; addresses; networks; `*` for all. A name or address may have a port',
  }),
})

const drain = section({
  delayMs: milliseconds({
    default: 5000,
    minimum: 0,
    description: 'Time after SIGTERM during which new requests are still served, while `/readyz` fails',
  }),
  timeoutMs: milliseconds({
    default: 30_000,
    minimum: 0,
    description: 'Time after that for requests in flight to end',
  }),
})

const reload = section({
  everySeconds: seconds({
    default: 10,
    minimum: 0,
    maximum: 3600,
    description:
      'Interval at which the files of secrets and certificates are checked for changes; 0 disables it. SIGHUP always reloads',
  }),
})

const metrics = section({
  workspaces: list(text({ format: 'counted-workspace' }), {
    default: [],
    maxItems: 50,
    description:
      'Workspaces whose requests are counted separately, all others as `other`; if empty, nothing is counted by workspace',
  }),
  exemplars: boolean({
    default: false,
    description:
      'Serves metrics as OpenMetrics with trace ids as exemplars; Prometheus needs `--enable-feature=exemplar-storage`',
  }),
})

const tracing = section({
  endpoint: optional(
    httpUrl(
      'OTLP/HTTP collector, such as `http://collector:4318` (`/v1/traces` is added if it has no path); without it there are no spans',
    ),
  ),
  sampleRatio: number({
    default: 1,
    minimum: 0,
    maximum: 1,
    description:
      'Share of traces that is recorded, of those that start here or whose parent is not trusted (`tracing.trustParent`)',
  }),
  trustParent: oneOf(['trusted-proxies', 'always', 'never'], {
    default: 'trusted-proxies',
    description:
      'Which client’s `traceparent` decides whether a trace is recorded: that of `gateway.trustedProxies`, every client’s, or none',
  }),
})

const log = section({
  level: oneOf(['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'], {
    default: 'info',
    description: 'Least severe level that is logged',
  }),
  format: oneOf(['json', 'pretty'], {
    default: 'json',
    description: 'Form of a log line: JSON, or words and colours for a person, at a terminal only',
  }),
})

/**
 * Every setting, declared once: type, default, bounds, unit and one line of documentation. Names, tables, the chart's
 * schema and `config/default.yaml` follow from it (`npm run docs`).
 */
export const configSchema = section({
  gateway,
  console: consoleSettings,
  ops,
  upstream,
  redis,
  region: regionOfGateway,
  regions,
  keyService,
  keys,
  limits,
  database,
  outgoing,
  drain,
  reload,
  metrics,
  leaks,
  usage,
  refusals,
  webhooks,
  tracing,
  log,
  scopes: mapOf(SCOPE_TOKEN, text({ minLength: 1, maxLength: 200 }), {
    default: {
      'workspace:read': "Read the workspace's own data",
      'files:read': "List the workspace's files",
    },
    description:
      'Scopes that a key may have, each with what it grants in words. Scopes of your own are merged with the defaults, as routes are',
  }),
  routes,
})

type Declared = ValueOf<typeof configSchema>

/** A region of the console, with its secrets read and its defaults filled in. */
export interface RegionSettings {
  readonly name: string
  readonly redis: RegionRedis
}

/** The effective settings, validated. Values that stand in files are read, and routes know their names. */
export type Config = Omit<Declared, 'upstream' | 'routes' | 'regions'> & {
  regions: RegionSettings[]
  upstream: Omit<Declared['upstream'], 'headers'> & { headers: Record<string, string> }
  routes: ({ name: string; responseSchema?: ResponseSchema } & Omit<
    ValueOf<typeof route>,
    'responseSchema'
  >)[]
}
