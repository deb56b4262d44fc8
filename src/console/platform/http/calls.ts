import type {
  FastifyInstance,
  FastifyReply,
  FastifyRequest,
  FastifySchema,
  HTTPMethods,
  onRequestHookHandler,
} from 'fastify'
import type { Static, TObject, TSchema } from 'typebox'
import { holds, type Permission, sees } from '../access/principal.ts'
import { ApiError, type ApiErrorCode } from './api-error.ts'
import { fields } from './fields.ts'
import { requirePrincipal } from './request-context.ts'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** The name of a request in logs and metrics, as a call declares it; never text of a caller. */
    operation?: string
  }
  interface FastifyRequest {
    /** Set once a record was found or created, so that no log line holds text from the caller's path. */
    keyId: string | null
  }
}

export const NO_RESOURCE = 'No resource at this path'

/** One route of a JSON API. */
export interface Call {
  /** A GET answers HEAD too. */
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH'
  /** Without the prefix; parameters as `:name`. */
  readonly url: string
  /** Its name in logs and metrics. */
  readonly operation: string
  readonly schema?: FastifySchema
  /** Default: 64 KiB. */
  readonly bodyLimitBytes?: number
  /** Runs before the body is read. */
  readonly admit?: onRequestHookHandler
  readonly handle: (request: FastifyRequest, reply: FastifyReply) => Promise<unknown>
}

/** A call that needs a permission. */
export interface ProtectedCall extends Call {
  /** Null if every authenticated caller may make the call. */
  readonly permission: Permission | null
  /**
   * Where the caller needs the permission. `own`: in some workspace; the handler must check which. `all`: in every
   * workspace, also in those that do not exist yet.
   */
  readonly workspaces: 'own' | 'all'
}

const METHODS: readonly HTTPMethods[] = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']

/** Registers the calls under a prefix, behind one authentication hook. */
export function mountCalls(
  app: FastifyInstance,
  { prefix, admit, unknownPath }: { prefix: string; admit: onRequestHookHandler; unknownPath: ApiErrorCode },
  calls: readonly Call[],
): void {
  const plugin = async (scope: FastifyInstance) => {
    scope.addHook('onRequest', admit)
    // Without its own handler, a caller without a token could tell which paths exist.
    rejectUnknownPaths(scope, unknownPath)
    registerCalls(scope, calls)
  }
  void app.register(plugin, { prefix })
}

/** Before a body is read. */
export function rejectUnknownPaths(scope: FastifyInstance, code: ApiErrorCode): void {
  const reject = () => {
    throw new ApiError(code, NO_RESOURCE)
  }
  scope.setNotFoundHandler(reject)
  scope.addHook('preParsing', async ({ is404 }) => {
    if (is404) reject()
  })
}

/** Routes for the calls, and a 405 for every other method on their paths. */
function registerCalls(app: FastifyInstance, calls: readonly Call[]): void {
  for (const call of calls) {
    const { method, url, operation, schema, bodyLimitBytes, admit, handle } = call
    app.route({
      method,
      url,
      config: { operation },
      handler: handle,
      ...(isProtected(call) ? { onRequest: requirePermission(call) } : {}),
      ...(admit === undefined ? {} : { onRequest: admit }),
      ...(schema === undefined ? {} : { schema }),
      ...(bodyLimitBytes === undefined ? {} : { bodyLimit: bodyLimitBytes }),
    })
  }
  for (const [url, sameUrl] of Map.groupBy(calls, call => call.url)) {
    rejectOtherMethods(
      app,
      url,
      sameUrl.flatMap(({ method }) => (method === 'GET' ? ['GET', 'HEAD'] : [method])),
    )
  }
}

function isProtected(call: Call): call is ProtectedCall {
  return 'permission' in call
}

function requirePermission({ permission, workspaces }: ProtectedCall): onRequestHookHandler {
  return async request => {
    const principal = requirePrincipal(request)
    if (permission === null) return
    if (!holds(principal, permission)) {
      throw new ApiError('forbidden', `This call requires the permission ${permission}`)
    }
    if (workspaces === 'all' && !sees(principal, null)) {
      throw new ApiError('forbidden', `This call requires the permission ${permission} in all workspaces`)
    }
  }
}

/** In onRequest, so that no body is read first. */
function rejectOtherMethods(app: FastifyInstance, url: string, allowed: readonly string[]): void {
  const allow = allowed.join(', ')
  const reject = async () => {
    throw new ApiError('method_not_allowed', `This path accepts only ${allow}`, { allow })
  }
  const method = METHODS.filter(other => !allowed.includes(other))
  app.route({ method, url, config: { operation: 'other' }, onRequest: reject, handler: reject })
}

/** What a call says of itself: its route, its schemas and its place in the OpenAPI document. */
interface AdminCallDescription extends Omit<ProtectedCall, 'schema' | 'admit' | 'handle'> {
  /** The operation's id in the OpenAPI document. */
  readonly id: string
  readonly summary: string
  readonly description?: string
  /** Request headers with a meaning for this call. */
  readonly headers?: readonly ('Idempotency-Key' | 'If-Match')[]
  readonly responseHeaders?: readonly ('ETag' | 'Idempotency-Replayed')[]
  /** `lines`: NDJSON, each line of the response schema. Default: `json`. */
  readonly format?: 'json' | 'lines'
  /** Besides those that every call can have. */
  readonly errors?: readonly ApiErrorCode[]
}

/**
 * One call of the admin API. Without its permission, schemas and summary it does not compile.
 * @template Parts what its handler uses; by default unknown, so that the call can be described and not made
 */
export interface AdminCall<Parts = never> extends AdminCallDescription {
  /** Of a success. */
  readonly status: 200 | 201
  /** Each field's description completes `<field> must be …`. */
  readonly query: TObject | null
  readonly body: TSchema | null
  readonly response: TSchema
  readonly handle: (parts: Parts, checked: CheckedRequest<never, never>) => Promise<unknown>
}

/** A request whose query and body have passed their schemas. */
export interface CheckedRequest<Query, Body> {
  readonly request: FastifyRequest
  readonly reply: FastifyReply
  readonly query: Query
  readonly body: Body
}

interface TypedCall<Parts, Query extends TObject, Body extends TSchema, Response extends TSchema>
  extends AdminCallDescription {
  /** Default: 200. */
  readonly status?: 200 | 201
  readonly query?: Query
  readonly body?: Body
  readonly response: Response
  readonly handle: (
    parts: Parts,
    checked: CheckedRequest<Static<Query>, Static<Body>>,
  ) => Promise<Frozen<Static<Response>> | FastifyReply>
}

/** What a handler returns may be read only. */
type Frozen<Value> = Value extends readonly (infer Item)[]
  ? readonly Frozen<Item>[]
  : Value extends object
    ? { readonly [Name in keyof Value]: Frozen<Value[Name]> }
    : Value

/** @returns declares calls whose handlers use these parts; the schemas of a call give the types of its handler */
export function declareCalls<Parts>() {
  return <Query extends TObject, Body extends TSchema, Response extends TSchema>(
    call: TypedCall<Parts, Query, Body, Response>,
  ): AdminCall<Parts> => {
    const { status = 200, query = null, body = null } = call
    return { ...call, status, query, body }
  }
}

/** A parameter that a call does not know is refused, also where it knows none. */
const NO_QUERY = fields({})

/** The routes of calls, with what their handlers use. */
export function bindCalls<Parts>(calls: readonly AdminCall<Parts>[], parts: Parts): ProtectedCall[] {
  return calls.map(({ query, body, status, handle, ...route }) => ({
    ...route,
    schema: {
      querystring: query ?? NO_QUERY,
      ...(body === null ? {} : { body }),
    },
    handle: (request, reply) => {
      // The schemas of the route, which have validated both, are those that gave the handler its types.
      const checked = { query: request.query as never, body: request.body as never }
      return handle(parts, { request, reply: reply.code(status), ...checked })
    },
  }))
}
