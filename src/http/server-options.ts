import type { FastifyServerOptions } from 'fastify'

/** How often Node looks for requests that are late, and so the most by which one may be. */
const MAX_CHECK_MS = 1_000

/**
 * Options of Node's server: the time for a whole request to arrive, head and body. Both must be given when the server is
 * created, as Fastify's `requestTimeout` is not: Node then keeps its 60 s for the head, and applies the larger of the two
 * to the body.
 */
export function requestTimeouts(timeoutMs: number) {
  return {
    headersTimeout: timeoutMs,
    requestTimeout: timeoutMs,
    connectionsCheckingInterval: Math.min(MAX_CHECK_MS, timeoutMs),
  }
}

/**
 * For servers whose routes have no schemas, or a validator of their own. Without it, Fastify would load its default schema compilers, Ajv and
 * fast-json-stringify.
 */
export const noSchemas: NonNullable<FastifyServerOptions['schemaController']> = {
  compilersFactory: { buildValidator: rejectSchema, buildSerializer: rejectSchema },
}

function rejectSchema(): never {
  throw new Error('This server has no schema compilers: remove the schema from the route, or noSchemas')
}
