import { Validator } from '@seriousme/openapi-schema-validator'
import { describe, expect, it } from 'vitest'
import type { Config } from '../../src/config/schema/schema.ts'
import { DENIAL_REASONS, denialRow } from '../../src/domain/denial.ts'
import { type ApiOperation, describeApi } from '../../src/domain/route/describe-api.ts'
import { configOf } from '../config/examples.ts'

const CONFIG = configOf()
const RICH = configOf({
  file: `
scopes: { 'files:read': "Read the workspace's files", 'a/b~c': Odd but lawful }
routes:
  - { name: me, path: /me, answeredBy: gateway }
  - { name: own, path: '/own/{workspaceId}', answeredBy: gateway, scope: 'a/b~c' }
  - name: file
    summary: One file
    path: /v2/{workspaceId}/files/{fileId}
    upstreamPath: /secret-internal/{workspaceId}/{fileId}
    scope: files:read
    query:
      part: { type: choice, values: [head, all] }
      at: { type: token, maxLength: 9 }
      page: { type: integer, minimum: 0, maximum: 7 }
`,
})

function operationOf(config: Config, path: string): ApiOperation {
  const { paths } = describeApi(config, '1.2.3')
  const operation = paths[path]?.get
  if (operation === undefined) throw new Error(`${path} is not described`)
  return operation
}

describe('the document of the public API', () => {
  it.each([
    ['as it is shipped', CONFIG],
    ['with every kind of endpoint and parameter', RICH],
  ])('is valid OpenAPI 3.1, %s', async (_, config) => {
    const validator = new Validator()
    const result = await validator.validate(describeApi(config, '1.2.3'))
    expect(result).toEqual({ valid: true })
    expect(validator.version).toBe('3.1')
  })

  it.each([
    ['as it is shipped', CONFIG],
    ['with every kind of endpoint', RICH],
  ])('describes each endpoint once, and no other: %s', (_, config) => {
    const { paths } = describeApi(config, '1.2.3')
    expect(Object.keys(paths)).toEqual(config.routes.map(route => route.path))
    for (const { name, path, summary } of config.routes) {
      expect(Object.keys(paths[path] ?? {})).toEqual(['get'])
      expect(operationOf(config, path).operationId).toBe(name)
      expect(operationOf(config, path).summary).toBe(summary)
    }
  })

  it('describes each path and query parameter with its constraints', () => {
    const { parameters } = operationOf(RICH, '/v2/{workspaceId}/files/{fileId}')
    expect(parameters.map(({ name, in: place, required }) => [name, place, required])).toEqual([
      ['workspaceId', 'path', true],
      ['fileId', 'path', true],
      ['part', 'query', false],
      ['at', 'query', false],
      ['page', 'query', false],
    ])
    expect(parameters.slice(2).map(({ schema }) => schema)).toEqual([
      { type: 'string', enum: ['head', 'all'] },
      { type: 'string', pattern: '^[A-Za-z0-9._~-]+$', maxLength: 9 },
      { type: 'integer', minimum: 0, maximum: 7 },
    ])
    expect(operationOf(CONFIG, '/api/v1/workspaces/{workspaceId}/files').parameters.at(-1)?.schema).toEqual({
      type: 'integer',
      minimum: 1,
      maximum: 1000,
    })
  })

  it('names the required scope, and describes the 403 for a missing one', () => {
    const files = operationOf(CONFIG, '/api/v1/workspaces/{workspaceId}/files')
    expect(files.description).toContain("`files:read`: List the workspace's files")
    expect(files.responses['403']?.description).toContain('scope_missing: the key lacks files:read')
    const auth = operationOf(CONFIG, '/api/v1/auth').responses['403']?.description
    expect(auth).toBe('address_not_allowed: the key must not be used from this address')
  })

  it('names each code with which the gateway answers 401 or 403', () => {
    const { responses } = operationOf(CONFIG, '/api/v1/workspaces/{workspaceId}/files')
    const rows = DENIAL_REASONS.map(denialRow).filter(({ status }) => status === 401 || status === 403)
    expect(rows.length).toBeGreaterThan(5)
    const unnamed = rows.filter(({ status, code }) => !responses[status]?.description.includes(code))
    expect(unnamed.map(({ code }) => code)).toEqual([])
  })

  it('describes 404 for every route with a workspace, also if the gateway itself responds', () => {
    for (const { path } of [...CONFIG.routes, ...RICH.routes]) {
      const config = CONFIG.routes.some(route => route.path === path) ? CONFIG : RICH
      const has404 = Object.hasOwn(operationOf(config, path).responses, '404')
      expect(has404, path).toBe(path.includes('{workspaceId}'))
    }
  })

  it('describes upstream errors only for forwarded routes', () => {
    const statusesOf = (path: string) => Object.keys(operationOf(CONFIG, path).responses)
    expect(statusesOf('/api/v1/auth')).toEqual(['200', '400', '401', '403', '429', '503'])
    expect(statusesOf('/api/v1/workspaces/{workspaceId}')).toEqual([
      '200',
      '400',
      '401',
      '403',
      '404',
      '429',
      '502',
      '503',
      '504',
    ])
  })

  it('has one schema for every error, and the schema of the key for responses of the gateway', () => {
    for (const { path } of CONFIG.routes) {
      for (const [status, { content }] of Object.entries(operationOf(CONFIG, path).responses)) {
        if (status === '200') continue
        expect(content['application/json']?.schema).toEqual({ $ref: '#/components/schemas/Error' })
      }
    }
    const { responses } = operationOf(CONFIG, '/api/v1/auth')
    expect(responses['200']?.content['application/json']?.schema).toEqual({
      $ref: '#/components/schemas/Key',
    })
  })

  it('names the API by its public address; without one, it names no server', () => {
    const described = configOf({ file: 'console: { gatewayUrl: "https://api.example.com/" }' })
    expect(describeApi(described, '1.2.3')['servers']).toEqual([{ url: 'https://api.example.com' }])
    expect(Object.keys(describeApi(CONFIG, '1.2.3'))).not.toContain('servers')
  })

  it('has the schema of a response, with references to its new place', async () => {
    const [auth, workspace, files] = CONFIG.routes
    if (auth === undefined || workspace === undefined || files === undefined) throw new Error('no routes')
    const schema = {
      $schema: 'https://json-schema.org/draft/2020-12/schema',
      $id: 'https://example.com/files',
      type: 'array',
      items: { $ref: '#/$defs/a~1b' },
      $defs: { 'a/b': { type: 'object', properties: { $ref: { const: { $ref: '#/kept' } } } } },
    }
    const config = {
      ...CONFIG,
      routes: [auth, workspace, { ...files, responseSchema: { file: 'f', schema } }],
    }
    const api = describeApi(config, '1.2.3')
    expect(api['components']).toMatchObject({
      schemas: {
        'response-files': {
          type: 'array',
          items: { $ref: '#/components/schemas/response-files/$defs/a~1b' },
          $defs: schema.$defs,
        },
      },
    })
    const described = api.paths['/api/v1/workspaces/{workspaceId}/files']?.get.responses['200']
    expect(described?.content['application/json']?.schema).toEqual({
      $ref: '#/components/schemas/response-files',
    })
    const plain = { ...files, responseSchema: { file: 'f', schema: { items: { $ref: '#' } } } }
    const valid = describeApi({ ...CONFIG, routes: [auth, workspace, plain] }, '1.2.3')
    expect(await new Validator().validate(valid)).toEqual({ valid: true })
  })

  it('does not reveal the upstream', () => {
    const text = JSON.stringify([describeApi(RICH, '1.2.3'), describeApi(CONFIG, '1.2.3')])
    expect(text).not.toMatch(/secret-internal|workspaces\.internal|redis|8080/)
  })

  it('names the version of Postern and requires a bearer key for every route', () => {
    expect(describeApi(CONFIG, '1.2.3')).toMatchObject({
      openapi: expect.stringMatching(/^3\.1\.\d$/),
      info: { version: '1.2.3' },
      security: [{ apiKey: [] }],
      components: { securitySchemes: { apiKey: { type: 'http', scheme: 'bearer' } } },
    })
  })
})
