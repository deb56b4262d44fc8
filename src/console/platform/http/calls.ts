import type {
  FastifyInstance,
  FastifyReply,
  FastifyRequest,
  FastifySchema,
  HTTPMethods,
  onRequestHookHandler,
} from 'fastify'
import type { Permission } from '../access/permission.ts'
import { holds, sees } from '../access/principal.ts'
import { ApiError, type ApiErrorCode } from './api-error.ts'
import { principalOf } from './request-context.ts'

/** The name of a request in logs and metrics: a closed set. */
export type Operation =
  | 'issue'
  | 'list'
  | 'get'
  | 'search'
  | 'workspaces'
  /** By its digest. */
  | 'find'
  | 'rotate'
  | 'revoke'
  | 'suspend'
  | 'resume'
  | 'edit'
  | 'revoke_all'
  | 'keys_export'
  | 'keys_import'
  | 'audit'
  | 'audit_export'
  | 'tokens'
  | 'token_issue'
  | 'token_revoke'
  | 'whoami'
  | 'openapi'
  | 'deliveries'
  | 'webhook'
  | 'webhook_set'
  | 'webhook_remove'
  | 'webhook_test'
  | 'webhook_deliveries'
  | 'sync'
  | 'lookup'
  | 'lookups'
  | 'usage'
  | 'key_usage'
  | 'workspace_usage'
  | 'refusals'
  /** A signed report of GitHub. */
  | 'leaks'
  | 'leak_report'
  | 'confirmations'
  /** A page of the console. */
  | 'page'
  | 'other'

declare module 'fastify' {
  interface FastifyContextConfig {
    operation?: Operation
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
  readonly method: 'GET' | 'POST' | 'PATCH'
  readonly url: string
  readonly operation: Operation
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
      exposeHeadRoute: method === 'GET',
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
    const principal = principalOf(request)
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
