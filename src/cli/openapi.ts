import type { Config } from '../config/schema.ts'
import type { QueryRule } from '../domain/route.ts'

type Route = Config['routes'][number]

/** The public API as an OpenAPI 3.1 document, made of the configured routes. */
export function describeApi(config: Config, version: string): Record<string, unknown> {
  return {
    openapi: '3.1.0',
    info: {
      title: 'Workspace API',
      version,
      description: 'Read-only access to one workspace with an API key. Every other workspace answers 404.',
    },
    security: [{ apiKey: [] }],
    paths: Object.fromEntries(
      config.routes.map(route => [route.path, { get: describeRoute(config, route) }]),
    ),
    components: {
      securitySchemes: {
        apiKey: { type: 'http', scheme: 'bearer', description: 'An API key, bound to exactly one workspace' },
      },
      schemas: {
        Error: {
          type: 'object',
          required: ['code', 'error'],
          properties: {
            code: { type: 'string', description: 'Stable; for programs' },
            error: { type: 'string', description: 'For people' },
          },
        },
        Key: {
          type: 'object',
          required: ['workspaceId', 'scopes', 'keyId', 'hint', 'expiresAt'],
          properties: {
            workspaceId: { type: 'string' },
            scopes: { type: 'array', items: { type: 'string', enum: Object.keys(config.scopes) } },
            keyId: { type: 'string' },
            hint: { type: 'string' },
            expiresAt: { type: 'string', format: 'date-time' },
          },
        },
      },
    },
  }
}

function describeRoute(config: Config, route: Route): Record<string, unknown> {
  const scope =
    route.scope === undefined
      ? undefined
      : `Needs the scope \`${route.scope}\`: ${config.scopes[route.scope]}`
  return {
    operationId: route.name,
    ...(route.summary === undefined ? {} : { summary: route.summary }),
    description: scope ?? 'Any usable key will do.',
    parameters: [...pathParameters(route), ...queryParameters(route)],
    responses: describeResponses(route),
  }
}

function pathParameters(route: Route): unknown[] {
  return [...route.path.matchAll(/\{([^}]+)\}/g)].map(([, name]) => ({
    name,
    in: 'path',
    required: true,
    schema: { type: 'string', pattern: '^[A-Za-z0-9._~-]{1,128}$' },
  }))
}

function queryParameters(route: Route): unknown[] {
  return Object.entries(route.query ?? {}).map(([name, rule]) => ({
    name,
    in: 'query',
    required: false,
    schema: schemaOf(rule),
  }))
}

function schemaOf(rule: QueryRule): Record<string, unknown> {
  switch (rule.type) {
    case 'integer':
      return { type: 'integer', minimum: rule.minimum, maximum: rule.maximum }
    case 'token':
      return { type: 'string', pattern: '^[A-Za-z0-9._~-]+$', maxLength: rule.maxLength }
    case 'choice':
      return { type: 'string', enum: rule.values }
  }
}

function describeResponses(route: Route): Record<string, unknown> {
  const own = route.answeredBy === 'gateway'
  const schema = own ? { $ref: '#/components/schemas/Key' } : { description: 'As the service behind answers' }
  const forwarded: Record<string, string> = {
    502: 'The service behind gave no usable answer',
    504: 'The service behind did not answer in time',
  }
  const failures: Record<string, string> = {
    400: 'The request or its query is malformed',
    401: 'No usable key: key_missing, key_invalid, key_expired or key_revoked',
    ...(route.scope === undefined ? {} : { 403: 'The key lacks the scope' }),
    ...(pathParameters(route).length === 0 ? {} : { 404: 'No such workspace for this key' }),
    429: 'Too many requests',
    ...(own ? {} : forwarded),
    503: 'Not now: the key store, the service behind or this server is not available',
  }
  return {
    200: { description: 'OK', content: { 'application/json': { schema } } },
    ...Object.fromEntries(Object.entries(failures).map(([status, text]) => [status, describeError(text)])),
  }
}

function describeError(description: string): Record<string, unknown> {
  return { description, content: { 'application/json': { schema: { $ref: '#/components/schemas/Error' } } } }
}
