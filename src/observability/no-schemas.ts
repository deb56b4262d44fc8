import type { FastifyServerOptions } from 'fastify'

/**
 * For servers whose routes have no schemas. Without it, Fastify would load its default schema compilers, Ajv and
 * fast-json-stringify.
 */
export const noSchemas: NonNullable<FastifyServerOptions['schemaController']> = {
  compilersFactory: { buildValidator: rejectSchema, buildSerializer: rejectSchema },
}

function rejectSchema(): never {
  throw new Error('This server has no schema compilers: remove the schema from the route, or noSchemas')
}
