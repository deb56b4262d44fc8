import { type TSchema, Type } from 'typebox'

/** A setting that may come from a file, and is neither printed nor logged. */
export const secret = { secret: true }
/** Whatever can stand in a header in one piece, and cannot be guessed. */
export const bearerToken = { minLength: 16, maxLength: 512, pattern: '^[\\x21-\\x7e]+$' }
export const milliseconds = (description: string, minimum = 1) =>
  Type.Integer({ minimum, maximum: 3_600_000, description: `${description} (ms)` })
export const seconds = (description: string, minimum: number, maximum: number) =>
  Type.Number({ minimum, maximum, description: `${description} (s)` })
export const port = (description: string) => Type.Integer({ minimum: 0, maximum: 65_535, description })
export const host = (description: string) => Type.String({ minLength: 1, maxLength: 255, description })
export const httpUrl = (description: string) => Type.String({ format: 'http-url', description })
export const redisNodes = (description: string) =>
  Type.Array(Type.String({ format: 'redis-node' }), { maxItems: 64, description })
export const file = (description: string) => Type.String({ minLength: 1, description })
export const section = <Properties extends Record<string, TSchema>>(properties: Properties) =>
  Type.Object(properties, { additionalProperties: false })
export const optional = Type.Optional
/** A map whose names must all be of the pattern: without `additionalProperties` the others would go unchecked. */
export const mapOf = <Value extends TSchema>(pattern: string, value: Value, options = {}) =>
  Type.Record(Type.String({ pattern }), value, { additionalProperties: false, ...options })
/** When somebody who does not answer is not asked for a while. @param maximumMs of that while */
export const circuit = (failures: string, open: string, maximumMs: number) =>
  section({
    failures: Type.Integer({ minimum: 1, maximum: 1_000_000, description: failures }),
    openMs: Type.Integer({ minimum: 10, maximum: maximumMs, description: `${open} (ms)` }),
  })
