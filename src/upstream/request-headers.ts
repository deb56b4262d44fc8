import type { IncomingHttpHeaders } from 'node:http'
import { ASSERTION_HEADER, mayBeFixed, mayReachUpstream } from '../domain/header-names.ts'
import type { KeyGrant } from '../domain/key/key-record.ts'
import type { Forwarded } from '../http/client-address.ts'

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
  assertNames(clientNames, mayReachUpstream)
  assertNames([...fixedNames], mayBeFixed)

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

function assertNames(names: readonly string[], isAllowed: (name: string) => boolean): void {
  const found = names.find(name => !isAllowed(name))
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
