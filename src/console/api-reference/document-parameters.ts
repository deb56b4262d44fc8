import type { AdminCall } from '../platform/http/admin-call.ts'
import { ULID, WORKSPACE_ID_EXPECTED } from '../platform/http/request-fields.ts'

const PATH_PARAMETERS: Readonly<Record<string, object>> = {
  workspaceId: { type: 'string', pattern: '^[A-Za-z0-9._~-]{1,128}$', description: WORKSPACE_ID_EXPECTED },
  keyId: { type: 'string', pattern: `^key_${ULID}$` },
  tokenId: { type: 'string', pattern: `^tok_${ULID}$` },
}

const HEADERS = {
  'Idempotency-Key': {
    name: 'Idempotency-Key',
    in: 'header',
    required: false,
    description: 'Within 24 hours the same request returns the first response again, without the secret',
    schema: { type: 'string', pattern: '^[!-~]{1,255}$' },
  },
  'If-Match': {
    name: 'If-Match',
    in: 'header',
    required: true,
    description:
      'The version that was read, in quotes: the `ETag` of the key. A weak tag counts as the version; `*` edits any version',
    schema: { type: 'string', minLength: 1, examples: ['"3"'] },
  },
} as const

/** Parameters of the path, the query and the headers. */
export function describeParameters({ url, query, headers = [] }: AdminCall): object[] {
  const inPath = [...url.matchAll(/:(\w+)/g)].map(([, name = '']) => {
    const schema = PATH_PARAMETERS[name]
    if (schema === undefined) throw new Error(`The path parameter ${name} has no schema`)
    return { name, in: 'path', required: true, schema }
  })
  // TypeBox does not type the keywords that every schema can have.
  const parameters = Object.entries((query?.properties ?? {}) as Record<string, { description?: string }>)
  const inQuery = parameters.map(([name, { description, ...schema }]) => ({
    name,
    in: 'query',
    required: false,
    description: `Must be ${description}`,
    schema: { type: 'string', ...schema },
  }))
  return [...inPath, ...inQuery, ...headers.map(name => HEADERS[name])]
}
