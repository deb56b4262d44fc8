import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js'
import { ADMIN_CALLS, ADMIN_PREFIX, describeAdminApi } from '../../src/console/api-reference/admin-api.ts'

interface Responses {
  readonly [status: string]: { readonly $ref: string } | DescribedResponse | undefined
}
interface DescribedResponse {
  readonly headers?: object
  readonly content: Readonly<Record<string, { readonly schema: object; readonly 'x-line-schema'?: object }>>
}
/** The parts of the document that the check reads; a test validates the document itself. */
export interface AdminDocument {
  readonly servers: readonly { readonly url: string }[]
  readonly paths: Readonly<
    Record<
      string,
      Readonly<Record<string, { readonly operationId: string; readonly responses: Responses } | undefined>>
    >
  >
  readonly components: Readonly<Record<'schemas' | 'responses', Readonly<Record<string, object>>>>
}

export function adminDocument(publicUrl?: string): AdminDocument {
  return describeAdminApi(ADMIN_CALLS, { version: '1.2.3', publicUrl }) as unknown as AdminDocument
}

export interface AdminExchange {
  readonly method: string
  /** With the prefix and the query. */
  readonly url: string
  readonly status: number
  readonly headers: Readonly<Record<string, unknown>>
  readonly text: string
}

const DATE_TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/
const ERROR = '#/components/schemas/Error'
const document = adminDocument()
const ajv = new Ajv2020({ strict: false, formats: { 'date-time': DATE_TIME } })
ajv.addSchema(closed(document) as object, 'admin')
const patterns = Object.keys(document.paths).map(path => ({
  path,
  pattern: new RegExp(`^${path.replace(/\{\w+\}/g, '[^/]+')}$`),
}))

/** @throws if the response is not one that the OpenAPI document describes, unknown fields included */
export function requireDescribed(exchange: AdminExchange): void {
  const { method, url, status, text } = exchange
  if (method === 'HEAD') return
  const name = `${method} ${url.split('?')[0]} ${status}`
  const path = (url.split('?')[0] ?? '').slice(ADMIN_PREFIX.length)
  // A literal path comes before one with a parameter, as in the router.
  const found = patterns.filter(each => each.pattern.test(path)).sort((a, b) => braces(a) - braces(b))[0]
  const operation = found === undefined ? undefined : document.paths[found.path]?.[method.toLowerCase()]
  if (operation === undefined && status < 400) throw new Error(`${name} is not in the OpenAPI document`)
  const response = operation?.responses[String(status)]
  if (operation !== undefined && response === undefined) throw new Error(`${name} is not a described status`)
  if (found === undefined || response === undefined || '$ref' in response) {
    check(name, ERROR, [text])
    return
  }
  const [type = '', content] = Object.entries(response.content)[0] ?? []
  if (type === '' || !String(exchange.headers['content-type']).startsWith(type)) {
    throw new Error(`${name} has the content type ${exchange.headers['content-type']}`)
  }
  const place = ['paths', found.path, method.toLowerCase(), 'responses', String(status), 'content', type]
  const pointer = `#/${place.map(part => encodeURIComponent(part.replaceAll('/', '~1'))).join('/')}`
  const isLines = content?.['x-line-schema'] !== undefined
  const texts = isLines ? text.split('\n').filter(line => line !== '') : [text]
  check(name, `${pointer}/${isLines ? 'x-line-schema' : 'schema'}`, texts)
}

function check(name: string, pointer: string, texts: readonly string[]): void {
  const validate: ValidateFunction | undefined = ajv.getSchema(`admin${pointer}`)
  if (validate === undefined) throw new Error(`${name}: no schema at ${pointer}`)
  for (const text of texts) {
    if (validate(JSON.parse(text))) continue
    throw new Error(`${name} is not as described: ${ajv.errorsText(validate.errors)}\n${text.slice(0, 500)}`)
  }
}

function braces({ path }: { readonly path: string }): number {
  return path.split('{').length
}

/** A copy in which no object of a schema may have fields besides those that it names. */
function closed(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(closed)
  if (typeof value !== 'object' || value === null) return value
  const copy = Object.fromEntries(Object.entries(value).map(([name, part]) => [name, closed(part)]))
  const isRecord = 'type' in copy && copy['type'] === 'object' && 'properties' in copy
  return isRecord && !('additionalProperties' in copy) ? { ...copy, additionalProperties: false } : copy
}
