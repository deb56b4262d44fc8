import type { KeyGrant } from '../domain/key/key-record.ts'

export const ASSERTION_HEADER = 'x-postern-assertion'

/** The headers that tell the upstream whose request it is. */
export function identityHeaders(grant: KeyGrant, assertion: string | null): Record<string, string> {
  const headers: Record<string, string> = {}
  setIdentity(headers, grant)
  if (assertion !== null) headers[ASSERTION_HEADER] = assertion
  return headers
}

/** @param headers changed in place */
export function setIdentity(headers: Record<string, string>, grant: KeyGrant): void {
  headers['x-postern-workspace-id'] = grant.workspaceId
  headers['x-postern-key-id'] = grant.id
  headers['x-postern-scopes'] = grant.scopes.join(' ')
}
