import { Type } from 'typebox'
import { mapOf, optional, section } from './schema-parts.ts'

const queryRule = Type.Union([
  section({
    type: Type.Literal('integer'),
    minimum: Type.Integer({ minimum: 0, maximum: 999_999_999_999_999 }),
    maximum: Type.Integer({ minimum: 0, maximum: 999_999_999_999_999 }),
  }),
  section({ type: Type.Literal('token'), maxLength: Type.Integer({ minimum: 1, maximum: 1024 }) }),
  section({
    type: Type.Literal('choice'),
    values: Type.Array(Type.String({ pattern: '^[A-Za-z0-9._~-]{1,128}$' }), { minItems: 1, maxItems: 64 }),
  }),
])

export const ROUTE_NAME = '^[a-z][a-z0-9-]{0,31}$'

/** One entry of `routes`. */
export const route = section({
  summary: optional(Type.String({ maxLength: 200 })),
  path: Type.String({ format: 'path-template' }),
  answeredBy: optional(Type.Union([Type.Literal('gateway'), Type.Literal('upstream')])),
  scope: optional(Type.String({ format: 'scope' })),
  upstreamPath: optional(Type.String({ format: 'path-template' })),
  query: optional(mapOf('^[A-Za-z][A-Za-z0-9_-]{0,63}$', queryRule)),
  shareAnswers: optional(Type.Boolean()),
})
