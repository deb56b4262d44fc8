/**
 * Settings are declared as plain JSON Schema, which `typebox/schema` validates. Its type builder would do the same, but
 * takes longer to load than the rest of a gateway's settings together.
 */

/** The keywords of JSON Schema that settings use, and three of our own. */
interface Keywords<Value> {
  readonly type?: 'object' | 'array' | 'string' | 'integer' | 'number' | 'boolean'
  readonly description?: string
  readonly default?: Value
  readonly const?: string
  readonly enum?: readonly string[]
  readonly anyOf?: readonly Schema[]
  readonly format?: string
  readonly pattern?: string
  readonly minLength?: number
  readonly maxLength?: number
  readonly minimum?: number
  readonly maximum?: number
  readonly items?: Schema
  readonly minItems?: number
  readonly maxItems?: number
  readonly properties?: Readonly<Record<string, Schema>>
  readonly patternProperties?: Readonly<Record<string, Schema>>
  readonly minProperties?: number
  readonly maxProperties?: number
  readonly required?: readonly string[]
  readonly additionalProperties?: false
  /** The setting may come from a file, and is never printed or logged. */
  readonly secret?: true
  readonly optional?: true
  /** The environment variable, where its name does not follow the rule. */
  readonly environment?: string
}

/** A schema, and the type of the values that it accepts. `~value` exists only in types. */
export interface Schema<Value = unknown> extends Keywords<Value> {
  readonly '~value'?: Value
}

export type ValueOf<S> = S extends { readonly '~value'?: infer Value } ? Value : never

type Properties = Readonly<Record<string, Schema>>
type OptionalName<P> = {
  [Name in keyof P]: P[Name] extends { readonly optional: true } ? Name : never
}[keyof P]
type SectionValue<P> = { [Name in Exclude<keyof P, OptionalName<P>>]: ValueOf<P[Name]> } & {
  [Name in OptionalName<P>]?: ValueOf<P[Name]>
}

/** A group of settings, or an object inside one: no other names are allowed. */
export function section<P extends Properties>(properties: P): Schema<SectionValue<P>> & { properties: P } {
  const required = Object.keys(properties).filter(name => properties[name]?.optional !== true)
  return { type: 'object', properties, required, additionalProperties: false }
}

/** A setting without a default, which may be left out. */
export function optional<S extends Schema>(schema: S): S & { readonly optional: true } {
  return { ...schema, optional: true }
}

export function text(keywords: Keywords<string> = {}): Schema<string> {
  return { type: 'string', ...keywords }
}

export function integer(keywords: Keywords<number>): Schema<number> {
  return { type: 'integer', ...keywords }
}

export function number(keywords: Keywords<number>): Schema<number> {
  return { type: 'number', ...keywords }
}

export function boolean(keywords: Keywords<boolean> = {}): Schema<boolean> {
  return { type: 'boolean', ...keywords }
}

export function list<Value>(items: Schema<Value>, keywords: Keywords<NoInfer<Value>[]>): Schema<Value[]> {
  return { type: 'array', items, ...keywords }
}

/** Names that match the pattern, each with a value. */
export function mapOf<Value>(
  pattern: RegExp,
  value: Schema<Value>,
  keywords: Keywords<Record<string, NoInfer<Value>>> = {},
): Schema<Record<string, Value>> {
  return {
    type: 'object',
    patternProperties: { [pattern.source]: value },
    additionalProperties: false,
    ...keywords,
  }
}

export function oneOf<const Value extends string>(
  values: readonly Value[],
  keywords: Keywords<NoInfer<Value>> = {},
): Schema<Value> {
  return { type: 'string', enum: values, ...keywords }
}

export function constant<const Value extends string>(value: Value): Schema<Value> {
  return { const: value }
}

export function anyOf<Schemas extends readonly Schema[]>(
  ...schemas: Schemas
): Schema<ValueOf<Schemas[number]>> {
  return { anyOf: schemas }
}

export function milliseconds(keywords: Keywords<number>): Schema<number> {
  const description = `${keywords.description} (ms)`
  return integer({ minimum: 1, maximum: 3_600_000, ...keywords, description })
}

export function seconds(keywords: Keywords<number>): Schema<number> {
  return number({ ...keywords, description: `${keywords.description} (s)` })
}

/** Those of IPv6 and IPv4; on a machine without IPv6, those of IPv4 (`run/listen.ts`). */
export const EVERY_ADDRESS = '::'

export function host(byDefault: string, description: string): Schema<string> {
  const meaning = byDefault === EVERY_ADDRESS ? '; `::` is every address, of IPv6 and IPv4' : ''
  return text({ default: byDefault, minLength: 1, maxLength: 255, description: description + meaning })
}

export function port(byDefault: number, description: string): Schema<number> {
  return integer({
    default: byDefault,
    minimum: 0,
    maximum: 65_535,
    description: `${description}; 0 picks a free one`,
  })
}

/** Without bounds of its own, 1 to 1024 characters. */
export function secretText(keywords: Keywords<string>): Schema<string> {
  return text({ minLength: 1, maxLength: 1024, ...keywords, secret: true })
}

/** Several, so that one can be replaced while another is in use. */
export function bearerTokens({ description, environment }: Keywords<string>): Schema<string[]> {
  return list(text({ format: 'bearer-token' }), {
    minItems: 1,
    maxItems: 8,
    secret: true,
    ...(environment === undefined ? {} : { environment }),
    ...(description === undefined ? {} : { description }),
  })
}

export function httpUrl(description: string): Schema<string> {
  return text({ format: 'http-url', description })
}

export function file(description: string): Schema<string> {
  return text({ minLength: 1, description })
}

/** A circuit breaker: after consecutive failures nothing is sent to `target` for a while. */
export function circuit(target: string, keywords: { failures: number; openMs: number; maxOpenMs: number }) {
  return section({
    failures: integer({
      default: keywords.failures,
      minimum: 1,
      maximum: 1_000_000,
      description: `Consecutive failed connections and timeouts after which the circuit to ${target} opens`,
    }),
    openMs: integer({
      default: keywords.openMs,
      minimum: 10,
      maximum: keywords.maxOpenMs,
      description: `Time that the circuit to ${target} stays open before one request probes it (ms)`,
    }),
  })
}
