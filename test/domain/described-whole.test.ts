import { expect, test } from 'vitest'
import { type ApiSource, describeApi } from '../../src/domain/route/describe-api.ts'

const SOURCE: ApiSource = {
  scopes: { 'files:read': 'Read files' },
  console: {},
  routes: [
    { name: 'auth', path: '/auth', answeredBy: 'gateway' },
    {
      name: 'file',
      summary: 'One file',
      path: '/w/{workspaceId}/{id}',
      scope: 'files:read',
      query: { part: { type: 'choice', values: ['head', 'all'] } },
      responseSchema: { schema: { type: 'string' } },
    },
    { name: 'plain', path: '/plain' },
  ],
}

const error = (description: string) => ({
  description,
  content: { 'application/json': { schema: { $ref: '#/components/schemas/Error' } } },
})
const ok = (schema: object) => ({ 200: { description: 'OK', content: { 'application/json': { schema } } } })
const ALL = {
  400: error('The request or its query is not valid; the text names the cause'),
  401: error('No usable key: key_missing, key_invalid, key_expired, key_revoked or key_suspended'),
  403: error('address_not_allowed: the key must not be used from this address'),
  429: error('Too many requests'),
  503: error('The key store, the upstream or this gateway is unavailable; retry later'),
}
const UPSTREAM = {
  502: error('The upstream returned an invalid response'),
  504: error('The upstream did not respond in time'),
}
const segment = { type: 'string', pattern: '^[A-Za-z0-9._~-]{1,128}$' }
const anyKey = { description: 'Any usable key is accepted.', parameters: [] }

test('the document says everything that an integrator needs', () => {
  expect(describeApi(SOURCE, '1.2.3')).toEqual({
    openapi: '3.1.0',
    info: {
      title: 'Workspace API',
      version: '1.2.3',
      description: 'Read-only access to one workspace with an API key. Every other workspace returns 404.',
    },
    security: [{ apiKey: [] }],
    paths: {
      '/auth': {
        get: {
          operationId: 'auth',
          ...anyKey,
          responses: { ...ok({ $ref: '#/components/schemas/Key' }), ...ALL },
        },
      },
      '/w/{workspaceId}/{id}': {
        get: {
          operationId: 'file',
          summary: 'One file',
          description: 'Needs the scope `files:read`: Read files',
          parameters: [
            { name: 'workspaceId', in: 'path', required: true, schema: segment },
            { name: 'id', in: 'path', required: true, schema: segment },
            { name: 'part', in: 'query', required: false, schema: { type: 'string', enum: ['head', 'all'] } },
          ],
          responses: {
            ...ok({ $ref: '#/components/schemas/response-file' }),
            ...ALL,
            ...UPSTREAM,
            403: error(
              'scope_missing: the key lacks files:read. address_not_allowed: the key must not be used from this address',
            ),
            404: error('No such workspace for this key'),
          },
        },
      },
      '/plain': {
        get: {
          operationId: 'plain',
          ...anyKey,
          responses: { ...ok({ description: 'The response of the upstream' }), ...ALL, ...UPSTREAM },
        },
      },
    },
    components: {
      securitySchemes: {
        apiKey: {
          type: 'http',
          scheme: 'bearer',
          description: 'An API key, bound to exactly one workspace',
        },
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
            scopes: { type: 'array', items: { type: 'string', enum: ['files:read'] } },
            keyId: { type: 'string' },
            hint: { type: 'string' },
            expiresAt: { type: 'string', format: 'date-time' },
            plan: {
              type: ['string', 'null'],
              description: 'The plan whose rate limits hold for the key, if any',
            },
          },
        },
        'response-file': { type: 'string' },
      },
    },
  })
})
