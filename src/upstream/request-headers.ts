import type { IncomingHttpHeaders } from 'node:http'
import type { KeyGrant } from '../domain/key/key-record.ts'
import type { Forwarded } from '../http/client-address.ts'

export const ASSERTION_HEADER = 'x-postern-assertion'

/** Values of the headers that the gateway sets itself. */
interface OwnRequestHeaders {
  readonly requestId: string
  readonly forwarded: Forwarded
}

type BuildRequestHeaders = (
  client: IncomingHttpHeaders,
  grant: KeyGrant,
  own: OwnRequestHeaders,
) => Record<string, string>

/** Fields of one connection or of its framing (RFC 9110, section 7.6.1), which only undici sets. */
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
  ASSERTION_HEADER,
  'x-request-id',
  'x-forwarded-for',
  'x-forwarded-proto',
  'x-forwarded-host',
]
const FORBIDDEN_FIXED: ReadonlySet<string> = new Set([...CONNECTION_FIELDS, ...OWN_FIELDS])
/** Credentials never reach the upstream. */
const FORBIDDEN_FROM_CLIENT: ReadonlySet<string> = new Set([
  ...FORBIDDEN_FIXED,
  'authorization',
  'proxy-authorization',
])

/**
 * @param allowed names of the client's headers that are forwarded
 * @param fixed headers that the operator configures; they replace the client's
 * @throws if a name would break requests or let a client set the gateway's own headers
 */
export function compileRequestHeaders(
  allowed: readonly string[],
  fixed: Readonly<Record<string, string>>,
): BuildRequestHeaders {
  const fixedEntries = Object.entries(fixed).map(([name, value]) => [name.toLowerCase(), value] as const)
  const fixedNames = new Set(fixedEntries.map(([name]) => name))
  const clientNames = allowed.map(name => name.toLowerCase()).filter(name => !fixedNames.has(name))
  assertNamesAllowed(clientNames, FORBIDDEN_FROM_CLIENT)
  assertNamesAllowed([...fixedNames], FORBIDDEN_FIXED)

  return (client, grant, own) => {
    const headers: Record<string, string> = {}
    for (const name of clientNames) {
      const value = client[name]
      if (typeof value === 'string') headers[name] = value
    }
    for (const [name, value] of fixedEntries) headers[name] = value
    setIdentity(headers, grant)
    headers['x-request-id'] = own.requestId
    headers['x-forwarded-for'] = own.forwarded.for
    headers['x-forwarded-proto'] = own.forwarded.proto
    // The gateway has removed a Host that held a key.
    if (own.forwarded.host !== '') headers['x-forwarded-host'] = own.forwarded.host
    return headers
  }
}

/** CGI-like interfaces treat `_` and `.` as `-`, so such variants of a name are forbidden as well. */
function assertNamesAllowed(names: readonly string[], forbidden: ReadonlySet<string>): void {
  const found = names.find(name => forbidden.has(name.replace(/[_.]/g, '-')))
  if (found !== undefined) throw new Error(`The header ${found} cannot be forwarded to the upstream`)
}

/** The headers that name key, workspace and scopes to the upstream. */
export function identityHeaders(grant: KeyGrant, assertion: string | null): Record<string, string> {
  const headers: Record<string, string> = {}
  setIdentity(headers, grant)
  if (assertion !== null) headers[ASSERTION_HEADER] = assertion
  return headers
}

/** @param headers changed in place */
function setIdentity(headers: Record<string, string>, grant: KeyGrant): void {
  headers['x-postern-workspace-id'] = grant.workspaceId
  headers['x-postern-key-id'] = grant.id
  headers['x-postern-scopes'] = grant.scopes.join(' ')
}
