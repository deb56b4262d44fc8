import { ROUTE_NAME } from '../../domain/route/route.ts'
import {
  anyOf,
  boolean,
  constant,
  file,
  integer,
  list,
  mapOf,
  oneOf,
  optional,
  section,
  text,
  type ValueOf,
} from './schema-builders.ts'

/** Each policy costs one Redis command for each request that it applies to, and each name of a policy four metric series. */
const MAX_POLICIES = 16
const MAX_PLANS = 32
const NAME_PATTERN = ROUTE_NAME

const policy = section({
  name: text({
    pattern: NAME_PATTERN.source,
    description: 'Name in the `RateLimit` response fields and in metrics',
  }),
  per: oneOf(['workspace', 'key'], {
    description: 'What each window counts: all keys of a workspace, or one key',
  }),
  route: optional(text({ pattern: NAME_PATTERN.source, description: 'The one route that is limited' })),
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

export const limits = section({
  policies: list(policy, {
    default: [],
    maxItems: MAX_POLICIES,
    description:
      'Rate limits per workspace or per key, for keys without a plan; requests above them get 429 `rate_limited`',
  }),
  plans: mapOf(NAME_PATTERN, plan, {
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

const queryRule = anyOf(
  section({
    type: constant('integer'),
    minimum: integer({ minimum: 0, maximum: 999_999_999_999_999 }),
    maximum: integer({ minimum: 0, maximum: 999_999_999_999_999 }),
  }),
  section({ type: constant('token'), maxLength: integer({ minimum: 1, maximum: 1024 }) }),
  section({
    type: constant('choice'),
    values: list(text({ pattern: '^[A-Za-z0-9._~-]{1,128}$' }), { minItems: 1, maxItems: 64 }),
  }),
)

/** An entry of `routes`, without its name. */
export const route = section({
  summary: optional(text({ maxLength: 200, description: 'One line for the API reference' })),
  path: text({
    format: 'path-template',
    description: 'Template; `{workspaceId}` is required in it, and must be the key’s own',
  }),
  answeredBy: optional(
    oneOf(['gateway', 'upstream'], { description: '`upstream` by default; `gateway` describes the key' }),
  ),
  scope: optional(
    text({ format: 'scope', description: 'Scope that the key must have; without it any valid key will do' }),
  ),
  upstreamPath: optional(
    text({
      format: 'path-template',
      description: 'Path at the upstream, if it differs; the same parameters',
    }),
  ),
  query: optional({
    ...mapOf(/^[A-Za-z][A-Za-z0-9_-]{0,63}$/, queryRule),
    description:
      'Parameters that are forwarded: `integer` (`minimum`, `maximum`), `token` (`maxLength`), `choice` (`values`)',
  }),
  coalesce: optional(
    boolean({
      description:
        'Whether concurrent requests of one workspace with the same scopes may share one upstream response',
    }),
  ),
  responseSchema: optional(
    file(
      'File with a JSON Schema of the upstream’s response, for the API reference; a gateway does not read it',
    ),
  ),
})

export const DEFAULT_ROUTES: Record<string, ValueOf<typeof route>> = {
  auth: { summary: 'What this key is', path: '/api/v1/auth', answeredBy: 'gateway' },
  workspace: {
    summary: "The key's workspace",
    path: '/api/v1/workspaces/{workspaceId}',
    scope: 'workspace:read',
  },
  files: {
    summary: "Files of the key's workspace",
    path: '/api/v1/workspaces/{workspaceId}/files',
    scope: 'files:read',
    query: { limit: { type: 'integer', minimum: 1, maximum: 1000 } },
  },
}

export const routes = mapOf(NAME_PATTERN, route, {
  default: DEFAULT_ROUTES,
  minProperties: 1,
  maxProperties: 200,
  description:
    'Endpoints of the public API, by name. Routes of your own are merged with the defaults: the same name replaces one, and `name: null` removes it',
})
