import type { FastifyInstance, FastifyReply, FastifyRequest, FastifySchema, HTTPMethods } from 'fastify'
import { ApiError } from './api-error.ts'

/** What a request is called in logs and metrics: a closed set. */
export type Operation =
  | 'issue'
  | 'list'
  | 'get'
  | 'rotate'
  | 'revoke'
  | 'audit'
  | 'deliveries'
  | 'sync'
  | 'lookup'
  | 'lookups'
  | 'usage'
  | 'confirmations'
  /** For people. */
  | 'page'
  | 'other'

declare module 'fastify' {
  interface FastifyContextConfig {
    operation?: Operation
  }
  interface FastifyRequest {
    /** Set once a record was found or made, so that a log line never holds what a caller put into a path. */
    keyId: string | null
  }
}

export interface Call {
  readonly method: 'GET' | 'POST'
  readonly url: string
  readonly operation: Operation
  readonly schema?: FastifySchema
  /** 64 KiB where it says nothing. */
  readonly bodyLimitBytes?: number
  /**
   * Whether people may call it who are no administrators; it then itself refuses what is not of their workspaces. A call
   * that says nothing is for programs and administrators.
   */
  readonly forPeople?: true
  readonly handle: (request: FastifyRequest, reply: FastifyReply) => Promise<unknown>
}

const METHODS: readonly HTTPMethods[] = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']

/** Routes for the calls, and for each of their paths the refusal of every other method. */
export function registerCalls(app: FastifyInstance, calls: readonly Call[]): void {
  for (const { method, url, operation, schema, bodyLimitBytes, forPeople, handle } of calls) {
    app.route({
      method,
      url,
      config: { operation },
      handler: handle,
      ...(forPeople === true ? {} : { onRequest: refuseMostPeople }),
      ...(schema === undefined ? {} : { schema }),
      ...(bodyLimitBytes === undefined ? {} : { bodyLimit: bodyLimitBytes }),
    })
  }
  for (const [url, sameUrl] of Map.groupBy(calls, call => call.url)) {
    refuseOtherMethods(
      app,
      url,
      sameUrl.map(call => call.method),
    )
  }
}

async function refuseMostPeople({ person }: FastifyRequest): Promise<void> {
  if (person !== null && !person.administrator) {
    throw new ApiError('forbidden', 'This is for administrators, and for programs with the admin token')
  }
}

/** On the request and not in a handler, so that no body is read for it. */
function refuseOtherMethods(app: FastifyInstance, url: string, allowed: readonly string[]): void {
  const allow = allowed.join(', ')
  const refuse = async () => {
    throw new ApiError('method_not_allowed', `This path takes only ${allow}`, { allow })
  }
  const method = METHODS.filter(other => !allowed.includes(other))
  app.route({ method, url, config: { operation: 'other' }, onRequest: refuse, handler: refuse })
}
