import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Static, TObject, TSchema } from 'typebox'
import type { Permission } from '../access/permission.ts'
import type { ApiErrorCode } from './api-error.ts'
import type { Operation, ProtectedCall } from './calls.ts'

/** What a call says of itself: its route, its schemas and its place in the OpenAPI document. */
export interface AdminCallDescription {
  /** The operation's id in the OpenAPI document. */
  readonly id: string
  /** A GET answers HEAD too. */
  readonly method: 'GET' | 'POST' | 'PATCH'
  /** Without the prefix; parameters as `:name`. */
  readonly url: string
  readonly operation: Operation
  /** Null if every authenticated caller may make the call. */
  readonly permission: Permission | null
  /**
   * Where the caller needs the permission. `own`: in some workspace; the handler must check which. `all`: in every
   * workspace, also in those that do not exist yet.
   */
  readonly workspaces: 'own' | 'all'
  readonly summary: string
  readonly description?: string
  /** Request headers with a meaning for this call. */
  readonly headers?: readonly ('Idempotency-Key' | 'If-Match')[]
  /** Of a success. */
  readonly status: 200 | 201
  readonly responseHeaders?: readonly ('ETag' | 'Idempotency-Replayed')[]
  /** `lines`: NDJSON, each line of the response schema. Default: `json`. */
  readonly format?: 'json' | 'lines'
  /** Besides those that every call can have. */
  readonly errors?: readonly ApiErrorCode[]
  /** Default: 64 KiB. */
  readonly bodyLimitBytes?: number
}

/**
 * One call of the admin API. Without its permission, schemas and summary it does not compile.
 * @template Parts what its handler uses; by default unknown, so that the call can be described and not made
 */
export interface AdminCall<Parts = never> extends AdminCallDescription {
  /** Each field's description completes `<field> must be …`. */
  readonly query: TObject | null
  readonly body: TSchema | null
  readonly response: TSchema
  readonly handle: (parts: Parts, request: FastifyRequest, reply: FastifyReply) => Promise<unknown>
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
    const { query = null, body = null, handle } = call
    return {
      ...call,
      query,
      body,
      handle: (parts, request, reply) => {
        // The route's schemas, which are these two, have validated both.
        const checked = { query: request.query as Static<Query>, body: request.body as Static<Body> }
        return handle(parts, { request, reply, ...checked })
      },
    }
  }
}

/** The routes of calls, with what their handlers use. */
export function bindCalls<Parts>(calls: readonly AdminCall<Parts>[], parts: Parts): ProtectedCall[] {
  return calls.map(call => {
    const { method, url, operation, permission, workspaces, status, query, body, bodyLimitBytes } = call
    return {
      ...{ method, url, operation, permission, workspaces },
      schema: {
        ...(query === null ? {} : { querystring: query }),
        ...(body === null ? {} : { body }),
      },
      ...(bodyLimitBytes === undefined ? {} : { bodyLimitBytes }),
      handle: (request, reply) => call.handle(parts, request, reply.code(status)),
    }
  })
}
