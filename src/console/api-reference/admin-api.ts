import { type TSchema, Type } from 'typebox'
import { idPattern } from '../../domain/id-form.ts'
import { WORKSPACE_ID_EXPECTED } from '../../domain/key/key-record.ts'
import { ANNOUNCING_CALLS } from '../announcing/index.ts'
import { AUDIT_CALLS } from '../audit/index.ts'
import { KEY_CALLS } from '../keys/index.ts'
import { API_ERROR_CODES, type ApiErrorCode, httpStatus } from '../platform/http/api-error.ts'
import { type AdminCall, declareCalls } from '../platform/http/calls.ts'
import { TOKEN_CALLS } from '../tokens/index.ts'
import { USAGE_CALLS } from '../usage/index.ts'
import { WEBHOOK_CALLS } from '../webhooks/index.ts'
import { WORKSPACE_CALLS } from '../workspaces/index.ts'

export type AdminDocument = Readonly<Record<string, unknown>>

interface DocumentParts {
  readonly describe: () => AdminDocument
}

const adminCall = declareCalls<DocumentParts>()

/** The document of the admin API, without the prefix. Like the paths themselves, only callers with a token or session see it. */
export const OPENAPI_CALLS: readonly AdminCall<DocumentParts>[] = [
  adminCall({
    id: 'describeAdminApi',
    method: 'GET',
    url: '/openapi.json',
    operation: 'openapi',
    permission: null,
    workspaces: 'own',
    summary: 'This document',
    response: Type.Record(Type.String(), Type.Unknown()),
    handle: async ({ describe }) => describe(),
  }),
]

/** The admin API, in the order of its document. */
export const ADMIN_CALLS: readonly AdminCall[] = [
  ...KEY_CALLS,
  ...WORKSPACE_CALLS,
  ...USAGE_CALLS,
  ...AUDIT_CALLS,
  ...TOKEN_CALLS,
  ...WEBHOOK_CALLS,
  ...ANNOUNCING_CALLS,
  ...OPENAPI_CALLS,
]

export const ADMIN_PREFIX = '/admin/v1'

/** Of every call. */
const COMMON_ERRORS: readonly ApiErrorCode[] = [
  'invalid_request',
  'unauthenticated',
  'misdirected_request',
  'rate_limited',
  'internal_error',
  'database_unavailable',
]
const MEANINGS: Readonly<Record<ApiErrorCode, string>> = {
  invalid_request: 'The request is not valid: the text names the cause, and `field` where it is one',
  unauthenticated: 'No valid token or session',
  forbidden: 'A permission is missing, or the CSRF token of a session is wrong',
  not_found: 'No such key, token or workspace, or one that the caller may not see',
  unknown_path: 'No such path',
  reports_unavailable: 'Reports of leaked keys cannot be handled now; not from this API',
  webhooks_disabled: 'Workspaces have no webhooks: a setting of the console switches them on',
  usage_disabled: 'Counts or refusals are not kept: a setting of the console switches them off',
  method_not_allowed: 'Another method is needed',
  conflict: 'The state of the key does not allow it',
  precondition_failed: 'The key is no longer of the version in `If-Match`; `ETag` has the present one',
  request_too_large: 'The body is too large',
  unsupported_media_type: 'The body is not `application/json`',
  misdirected_request: 'The `Host` is not that of `console.publicUrl`',
  idempotency_mismatch: 'The `Idempotency-Key` was used for a different request',
  precondition_required: '`If-Match` is missing',
  rate_limited: 'Too many requests with a wrong token from this address; see `Retry-After`',
  internal_error: 'See the console’s log under the request id',
  database_unavailable:
    'The database is unavailable: send the same request again, with its `Idempotency-Key`. A `keyId` or `tokenId` names what may have been made or changed all the same',
  redis_unavailable: 'Redis is unavailable: send the same request again',
}

const ERROR = {
  type: 'object',
  required: ['code', 'error'],
  properties: {
    code: { type: 'string', enum: API_ERROR_CODES, description: 'Stable, machine-readable code' },
    error: { type: 'string', description: 'Human-readable explanation; may change' },
    field: { type: 'string', description: 'The field, parameter or header that is wrong' },
    keyId: { type: 'string', description: 'The key that may have been issued or changed all the same' },
    tokenId: { type: 'string', description: 'The token that may have been issued or revoked all the same' },
  },
}

const PATH_PARAMETERS: Readonly<Record<string, object>> = {
  workspaceId: { type: 'string', pattern: '^[A-Za-z0-9._~-]{1,128}$', description: WORKSPACE_ID_EXPECTED },
  keyId: { type: 'string', pattern: `^${idPattern('key')}$` },
  tokenId: { type: 'string', pattern: `^${idPattern('tok')}$` },
}

const REQUEST_HEADERS = {
  'Idempotency-Key': {
    name: 'Idempotency-Key',
    in: 'header',
    required: false,
    description: 'Within 24 hours the same request returns the first response again, without the secret',
    schema: { type: 'string', pattern: '^[!-~]{1,255}$' },
  },
  'If-Match': {
    name: 'If-Match',
    in: 'header',
    required: true,
    description:
      'The version that was read, in quotes: the `ETag` of the key. A weak tag counts as the version; `*` edits any version',
    schema: { type: 'string', minLength: 1, examples: ['"3"'] },
  },
} as const

const RESPONSE_HEADERS = {
  ETag: {
    description: 'The version of the key in quotes, for `If-Match`',
    schema: { type: 'string' },
  },
  'Idempotency-Replayed': {
    description: '`true` if an earlier request with this `Idempotency-Key` was answered',
    schema: { type: 'string', enum: ['true'] },
  },
}

/**
 * The admin API as an OpenAPI 3.1 document, generated from its calls.
 * @param publicUrl of the console; without one, paths are relative to the document
 */
export function describeAdminApi(
  calls: readonly AdminCall[],
  { version, publicUrl }: { readonly version: string; readonly publicUrl: string | undefined },
): AdminDocument {
  const components = createComponents()
  const origin = publicUrl === undefined ? '' : new URL(publicUrl).origin
  const byPath = Map.groupBy(calls, ({ url }) => url.replace(/:(\w+)/g, '{$1}'))
  const paths = Object.fromEntries(
    [...byPath].map(([path, own]) => [
      path,
      Object.fromEntries(own.map(call => [call.method.toLowerCase(), describeCall(call, components.refer)])),
    ]),
  )
  return {
    openapi: '3.1.0',
    info: {
      title: 'Postern admin API',
      version,
      description: 'Keys, tokens and the audit log. Every GET answers HEAD too. Unknown fields are errors.',
    },
    servers: [{ url: `${origin}${ADMIN_PREFIX}` }],
    security: [{ token: [] }],
    paths,
    components: {
      securitySchemes: { token: { type: 'http', scheme: 'bearer', description: 'An admin token' } },
      schemas: { Error: ERROR, ...components.schemas },
      responses: Object.fromEntries(API_ERROR_CODES.map(code => [code, describeError([code])])),
      headers: RESPONSE_HEADERS,
    },
  }
}

function describeCall(call: AdminCall, refer: (schema: TSchema) => unknown) {
  const { id, summary, description, permission, workspaces, body } = call
  const where = workspaces === 'all' ? ' in all workspaces' : ''
  const needed =
    permission === null ? 'Needs no permission.' : `Needs the permission \`${permission}\`${where}.`
  const parameters = describeParameters(call)
  const isOptional = body !== null && 'type' in body && Array.isArray(body.type)
  const content = { 'application/json': { schema: body === null ? {} : refer(body) } }
  return {
    operationId: id,
    summary,
    description: description === undefined ? needed : `${description} ${needed}`,
    ...(parameters.length === 0 ? {} : { parameters }),
    ...(body === null ? {} : { requestBody: { required: !isOptional, content } }),
    responses: { [call.status]: describeSuccess(call, refer), ...describeErrors(call) },
  }
}

function describeParameters({ url, query, headers = [] }: AdminCall): object[] {
  const inPath = [...url.matchAll(/:(\w+)/g)].map(([, name = '']) => {
    const schema = PATH_PARAMETERS[name]
    if (schema === undefined) throw new Error(`The path parameter ${name} has no schema`)
    return { name, in: 'path', required: true, schema }
  })
  // TypeBox does not type the keywords that every schema can have.
  const parameters = Object.entries((query?.properties ?? {}) as Record<string, { description?: string }>)
  const inQuery = parameters.map(([name, { description, ...schema }]) => ({
    name,
    in: 'query',
    required: false,
    description: `Must be ${description}`,
    schema: forGenerators({ type: 'string', ...schema }),
  }))
  return [...inPath, ...inQuery, ...headers.map(name => REQUEST_HEADERS[name])]
}

function describeSuccess(call: AdminCall, refer: (schema: TSchema) => unknown) {
  const { response, format = 'json', responseHeaders = [] } = call
  const schema = refer(response)
  const headers = responseHeaders.map(name => [name, { $ref: `#/components/headers/${name}` }] as const)
  return {
    description:
      format === 'json' ? call.summary : 'One JSON object a line, of the schema in `x-line-schema`',
    ...(headers.length === 0 ? {} : { headers: Object.fromEntries(headers) }),
    content:
      format === 'json'
        ? { 'application/json': { schema } }
        : { 'application/x-ndjson': { schema: { type: 'string' }, 'x-line-schema': schema } },
  }
}

/** Every status besides that of a success, with the codes that it can have. */
function describeErrors({ method, permission, body, errors = [] }: AdminCall) {
  const codes: ApiErrorCode[] = [...COMMON_ERRORS, ...errors]
  if (permission !== null || method !== 'GET') codes.push('forbidden')
  if (body !== null) codes.push('request_too_large', 'unsupported_media_type')
  const byStatus = Map.groupBy(codes, httpStatus)
  return Object.fromEntries(
    [...byStatus].map(([status, [first, ...more]]) => [
      status,
      first !== undefined && more.length === 0
        ? { $ref: `#/components/responses/${first}` }
        : describeError(first === undefined ? [] : [first, ...more]),
    ]),
  )
}

function describeError(codes: readonly ApiErrorCode[]) {
  return {
    description: codes.map(code => `\`${code}\`: ${MEANINGS[code]}`).join('. '),
    content: { 'application/json': { schema: { $ref: '#/components/schemas/Error' } } },
  }
}

/** `Type.Record` says so that each name is allowed. */
const EACH_NAME = '^.*$'

/**
 * The same schema in the words that generators of clients read: an enumeration with its type in place of `anyOf` with a
 * `const` each, `additionalProperties` in place of a pattern of every name, and a body that may be absent as the object it is.
 */
function forGenerators(schema: object): Readonly<Record<string, unknown>> {
  const { anyOf, patternProperties, ...rest } = schema as Readonly<Record<string, unknown>>
  const constants = Array.isArray(anyOf) ? anyOf.map(readConstant) : []
  const ofEachName = (patternProperties as Readonly<Record<string, unknown>> | undefined)?.[EACH_NAME]
  return {
    ...rest,
    ...(Array.isArray(rest['enum']) ? { type: 'string' } : {}),
    ...(Array.isArray(rest['type']) ? { type: 'object' } : {}),
    ...(anyOf === undefined
      ? {}
      : constants.length > 0 && constants.every(constant => typeof constant === 'string')
        ? { type: 'string', enum: constants }
        : { anyOf }),
    ...(patternProperties === undefined
      ? {}
      : ofEachName === undefined
        ? { patternProperties }
        : { additionalProperties: ofEachName }),
  }
}

function readConstant(schema: unknown): unknown {
  return typeof schema === 'object' && schema !== null && 'const' in schema ? schema.const : undefined
}

interface Components {
  /** Schemas with a title, by title. */
  readonly schemas: Readonly<Record<string, unknown>>
  /** A copy of the schema that refers to a component wherever one has a title. */
  refer(schema: TSchema): unknown
}

/** Collects the schemas with a title as components, so that each stands in the document once. */
function createComponents(): Components {
  const schemas: Record<string, unknown> = {}
  function refer(value: unknown): unknown {
    if (Array.isArray(value)) return value.map(refer)
    if (typeof value !== 'object' || value === null) return value
    const { title, ...rest } = forGenerators(value)
    const copy = Object.fromEntries(Object.entries(rest).map(([name, part]) => [name, refer(part)]))
    if (typeof title !== 'string') return title === undefined ? copy : { title: refer(title), ...copy }
    schemas[title] ??= copy
    return { $ref: `#/components/schemas/${title}` }
  }
  return { schemas, refer }
}
