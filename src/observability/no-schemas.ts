import type { FastifyServerOptions } from 'fastify'

/**
 * For servers whose routes have no schemas: one that is not given any compilers of schemas loads Fastify's own, with all of
 * Ajv and of fast-json-stringify behind them.
 */
export const noSchemas: NonNullable<FastifyServerOptions['schemaController']> = {
  compilersFactory: { buildValidator: refuse, buildSerializer: refuse },
}

function refuse(): never {
  throw new Error('This server was made without compilers of schemas, and one of its routes has a schema')
}
