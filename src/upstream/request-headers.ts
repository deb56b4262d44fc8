import type { IncomingHttpHeaders } from 'node:http'
import type { KeyGrant } from '../domain/key/key-record.ts'
import type { Forwarded } from './forwarded.ts'

/** What the gateway itself says of a request. */
export interface OwnRequestHeaders {
  readonly requestId: string
  readonly forwarded: Forwarded
}

export type BuildRequestHeaders = (
  client: IncomingHttpHeaders,
  grant: KeyGrant,
  own: OwnRequestHeaders,
) => Record<string, string>

/** Fields of one connection or of its framing (RFC 9110, section 7.6.1): the connection's owner alone sets them. */
const CONNECTION_FIELDS = [
  'connection',
  'keep-alive',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'expect',
  'content-length',
  'host',
]
const OWN_FIELDS = [
  'x-postern-workspace-id',
  'x-postern-key-id',
  'x-postern-scopes',
  'x-request-id',
  'x-forwarded-for',
  'x-forwarded-proto',
  'x-forwarded-host',
]
const NEVER_FIXED: ReadonlySet<string> = new Set([...CONNECTION_FIELDS, ...OWN_FIELDS])
/** The key stops here: the upstream knows nothing of keys. */
const NEVER_FROM_CLIENT: ReadonlySet<string> = new Set([
  ...NEVER_FIXED,
  'authorization',
  'proxy-authorization',
])

/**
 * Names that would break a request or let a client speak for the gateway refuse here, before the first request.
 * @param allowed headers of the client that go on
 * @param fixed the operator's own headers, which win over the client's
 */
export function compileRequestHeaders(
  allowed: readonly string[],
  fixed: Readonly<Record<string, string>>,
): BuildRequestHeaders {
  const operators = Object.entries(fixed).map(([name, value]) => [name.toLowerCase(), value] as const)
  const overridden = new Set(operators.map(([name]) => name))
  const clients = allowed.map(name => name.toLowerCase()).filter(name => !overridden.has(name))
  refuseNames(clients, NEVER_FROM_CLIENT)
  refuseNames([...overridden], NEVER_FIXED)

  return (client, grant, own) => {
    const headers: Record<string, string> = {}
    for (const name of clients) {
      const value = client[name]
      if (typeof value === 'string') headers[name] = value
    }
    for (const [name, value] of operators) headers[name] = value
    headers['x-postern-workspace-id'] = grant.workspaceId
    headers['x-postern-key-id'] = grant.id
    headers['x-postern-scopes'] = grant.scopes.join(' ')
    headers['x-request-id'] = own.requestId
    headers['x-forwarded-for'] = own.forwarded.for
    headers['x-forwarded-proto'] = own.forwarded.proto
    // There is none where it held a key.
    if (own.forwarded.host !== '') headers['x-forwarded-host'] = own.forwarded.host
    return headers
  }
}

/** Servers behind CGI-like interfaces read `_` and `.` as `-`: such a spelling counts as the name itself. */
function refuseNames(names: readonly string[], never: ReadonlySet<string>): void {
  const refused = names.find(name => never.has(name.replace(/[_.]/g, '-')))
  if (refused !== undefined) throw new Error(`The header ${refused} cannot be forwarded to the upstream`)
}
