import { SHORT_NAME } from '../../domain/id-form.ts'
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

export const routes = mapOf(SHORT_NAME, route, {
  default: DEFAULT_ROUTES,
  minProperties: 1,
  maxProperties: 200,
  description:
    'Endpoints of the public API, by name. Routes of your own are merged with the defaults: the same name replaces one, and `name: null` removes it',
})
