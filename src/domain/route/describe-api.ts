import { embedSchema, type JsonSchema } from './response-schema.ts'
import type { QueryRule, RouteConfig } from './route.ts'

/** The settings that the document describes. */
export interface ApiSource {
  readonly routes: readonly DescribedRoute[]
  /** By scope, a description of what it permits. */
  readonly scopes: Readonly<Record<string, string>>
  readonly console: { readonly gatewayUrl?: string | undefined }
}

interface DescribedRoute extends RouteConfig {
  readonly summary?: string | undefined
  readonly responseSchema?: { readonly schema: JsonSchema | null } | undefined
}

/** An OpenAPI 3.1 document. Only the parts shown on the console's reference page have types. */
export interface ApiDocument extends Readonly<Record<string, unknown>> {
  readonly paths: Readonly<Record<string, { readonly get: ApiOperation }>>
}

export interface ApiOperation {
  readonly operationId: string
  readonly summary?: string
  readonly description: string
  readonly parameters: readonly ApiParameter[]
  /** By status code. */
  readonly responses: Readonly<Record<string, ApiResponse>>
}

export interface ApiParameter {
  readonly name: string
  readonly in: 'path' | 'query'
  readonly required: boolean
  readonly schema: Readonly<Record<string, unknown>>
}

interface ApiResponse {
  readonly description: string
  readonly content: Readonly<Record<string, { readonly schema: unknown }>>
}

/** @returns the public API as an OpenAPI 3.1 document, generated from the configured routes */
export function describeApi(config: ApiSource, version: string): ApiDocument {
  return {
    openapi: '3.1.0',
    info: {
      title: 'Workspace API',
      version,
      description: 'Read-only access to one workspace with an API key. Every other workspace returns 404.',
    },
    // Without servers, paths would be relative to the place of the document, which is not that of the API.
    ...(config.console.gatewayUrl === undefined
      ? {}
      : { servers: [{ url: config.console.gatewayUrl.replace(/\/$/, '') }] }),
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
            code: { type: 'string', description: 'Stable, machine-readable code' },
            error: { type: 'string', description: 'Human-readable explanation; may change' },
          },
        },
        Key: {
          type: 'object',
          required: ['workspaceId', 'scopes', 'keyId', 'hint', 'expiresAt', 'plan'],
          properties: {
            workspaceId: { type: 'string' },
            scopes: { type: 'array', items: { type: 'string', enum: Object.keys(config.scopes) } },
            keyId: { type: 'string' },
            hint: { type: 'string' },
            expiresAt: { type: 'string', format: 'date-time' },
            plan: {
              type: ['string', 'null'],
              description: 'The plan whose rate limits hold for the key, if any',
            },
          },
        },
        ...responseSchemas(config.routes),
      },
    },
  }
}

function describeRoute(config: ApiSource, route: DescribedRoute): ApiOperation {
  const scope =
    route.scope === undefined
      ? undefined
      : `Needs the scope \`${route.scope}\`: ${config.scopes[route.scope]}`
  return {
    operationId: route.name,
    ...(route.summary === undefined ? {} : { summary: route.summary }),
    description: scope ?? 'Any usable key is accepted.',
    parameters: [...pathParameters(route), ...queryParameters(route)],
    responses: describeResponses(route),
  }
}

function responseSchemas(routes: readonly DescribedRoute[]): Record<string, unknown> {
  const described = routes.flatMap(({ name, responseSchema }) => {
    const schema = responseSchema?.schema ?? null
    const place = `#/components/schemas/${componentName(name)}`
    return schema === null ? [] : [[componentName(name), embedSchema(schema, place)] as const]
  })
  return Object.fromEntries(described)
}

function componentName(route: string): string {
  return `response-${route}`
}

function pathParameters(route: DescribedRoute): ApiParameter[] {
  return [...route.path.matchAll(/\{([^{}]+)\}/g)].map(([, name = '']) => ({
    name,
    in: 'path' as const,
    required: true,
    schema: { type: 'string', pattern: '^[A-Za-z0-9._~-]{1,128}$' },
  }))
}

function queryParameters(route: DescribedRoute): ApiParameter[] {
  return Object.entries(route.query ?? {}).map(([name, rule]) => ({
    name,
    in: 'query' as const,
    required: false,
    schema: describeRule(rule),
  }))
}

function describeRule(rule: QueryRule): Record<string, unknown> {
  switch (rule.type) {
    case 'integer':
      return { type: 'integer', minimum: rule.minimum, maximum: rule.maximum }
    case 'token':
      return { type: 'string', pattern: '^[A-Za-z0-9._~-]+$', maxLength: rule.maxLength }
    case 'choice':
      return { type: 'string', enum: rule.values }
  }
}

function describeResponses(route: DescribedRoute): Record<string, ApiResponse> {
  const byGateway = route.answeredBy === 'gateway'
  const component = byGateway ? 'Key' : route.responseSchema?.schema ? componentName(route.name) : null
  const schema =
    component === null
      ? { description: 'The response of the upstream' }
      : { $ref: `#/components/schemas/${component}` }
  const forwarded: Record<string, string> = {
    502: 'The upstream returned an invalid response',
    504: 'The upstream did not respond in time',
  }
  const lacksScope = route.scope === undefined ? '' : `scope_missing: the key lacks ${route.scope}. `
  const failures: Record<string, string> = {
    400: 'The request or its query is not valid; the text names the cause',
    401: 'No usable key: key_missing, key_invalid, key_expired, key_revoked or key_suspended',
    403: `${lacksScope}address_not_allowed: the key must not be used from this address`,
    ...(pathParameters(route).length === 0 ? {} : { 404: 'No such workspace for this key' }),
    429: 'Too many requests',
    ...(byGateway ? {} : forwarded),
    503: 'The key store, the upstream or this gateway is unavailable; retry later',
  }
  return {
    200: { description: 'OK', content: { 'application/json': { schema } } },
    ...Object.fromEntries(Object.entries(failures).map(([status, text]) => [status, describeError(text)])),
  }
}

function describeError(description: string): ApiResponse {
  return { description, content: { 'application/json': { schema: { $ref: '#/components/schemas/Error' } } } }
}
