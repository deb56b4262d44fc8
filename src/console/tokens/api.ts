import { Type } from 'typebox'
import { toInstant } from '../../domain/form/instant.ts'
import { EXPIRES_IN_DAYS_EXPECTED } from '../../domain/key/key-life.ts'
import {
  type AdminToken,
  allowedWorkspaces,
  holds,
  PERMISSIONS,
  type Principal,
  principalActor,
  principalName,
} from '../platform/access/principal.ts'
import { ApiError, invalidField } from '../platform/http/api-error.ts'
import { type AdminCall, declareCalls } from '../platform/http/calls.ts'
import {
  fields,
  listJson,
  name,
  noFields,
  pageQuery,
  pageSchema,
  secret as secretSchema,
} from '../platform/http/fields.ts'
import { caller, token as tokenSchema } from '../platform/http/items.ts'
import {
  otherRequest,
  readPage,
  readParameter,
  readRequestContext,
  requirePrincipal,
} from '../platform/http/request-context.ts'
import {
  type AdminTokens,
  MAX_TOKEN_WORKSPACES,
  PERMISSIONS_EXPECTED,
  TOKEN_WORKSPACES_EXPECTED,
  type TokenResult,
  type TokenSuccess,
} from './operations.ts'

interface TokenCallParts {
  readonly tokens: AdminTokens
}

const adminCall = declareCalls<TokenCallParts>()

const WRITES = { permission: 'tokens:write', workspaces: 'own' } as const

const ISSUE = adminCall({
  id: 'issueToken',
  method: 'POST',
  url: '/tokens',
  operation: 'token_issue',
  ...WRITES,
  summary: 'Makes an admin token, with no more rights than its maker has',
  headers: ['Idempotency-Key'],
  body: fields({
    name,
    permissions: Type.Array(Type.String(), { maxItems: 16, description: PERMISSIONS_EXPECTED }),
    workspaces: Type.Optional(
      Type.Array(Type.String(), { maxItems: MAX_TOKEN_WORKSPACES, description: TOKEN_WORKSPACES_EXPECTED }),
    ),
    expiresInDays: Type.Number({ description: EXPIRES_IN_DAYS_EXPECTED }),
  }),
  status: 201,
  responseHeaders: ['Idempotency-Replayed'],
  response: Type.Object({ token: tokenSchema, secret: secretSchema }),
  errors: ['idempotency_mismatch'],
  handle: async ({ tokens }, { request, reply, body }) => {
    const result = await tokens.issue(requirePrincipal(request), body, readRequestContext(request))
    const { token, secret, replayed } = requireSuccess(result)
    if (replayed) void reply.header('idempotency-replayed', 'true')
    return { token: tokenJson(token), secret: secret?.reveal() ?? null }
  },
})

const LIST = adminCall({
  id: 'listTokens',
  method: 'GET',
  url: '/tokens',
  operation: 'tokens',
  ...WRITES,
  summary: 'Admin tokens, newest first',
  query: pageQuery('tok'),
  response: pageSchema('tokens', tokenSchema),
  handle: async ({ tokens }, { request, query }) => {
    const { tokens: found, nextAfterId } = await tokens.list(requirePrincipal(request), readPage(query))
    return listJson({ tokens: found.map(tokenJson) }, nextAfterId)
  },
})

const REVOKE = adminCall({
  id: 'revokeToken',
  method: 'POST',
  url: '/tokens/:tokenId/revoke',
  operation: 'token_revoke',
  ...WRITES,
  summary: 'Revokes an admin token; again: the same token, unchanged',
  body: noFields,
  response: Type.Object({ token: tokenSchema }),
  errors: ['not_found'],
  handle: async ({ tokens }, { request }) => {
    const tokenId = readParameter(request, 'tokenId')
    const result = await tokens.revoke(requirePrincipal(request), tokenId, readRequestContext(request))
    return { token: tokenJson(requireSuccess(result).token) }
  },
})

/** Who makes the request. Every caller may know that. */
const WHOAMI = adminCall({
  id: 'whoami',
  method: 'GET',
  url: '/whoami',
  operation: 'whoami',
  permission: null,
  workspaces: 'own',
  summary: 'The caller, and what it may do',
  response: caller,
  handle: async (_, { request }) => whoamiJson(requirePrincipal(request)),
})

/** The admin API on its own tokens and on its caller, without the prefix. */
export const TOKEN_CALLS: readonly AdminCall<TokenCallParts>[] = [ISSUE, LIST, REVOKE, WHOAMI]

/** @throws ApiError if the operation was refused */
function requireSuccess(result: TokenResult): TokenSuccess {
  switch (result.kind) {
    case 'done':
      return result
    case 'invalid':
      throw invalidField(result.field, result.expected)
    case 'exceeds':
      throw new ApiError(
        'forbidden',
        'A token cannot have permissions, workspaces or a lifetime that its maker lacks',
      )
    case 'unknown_token':
      throw new ApiError('not_found', 'No such token')
    case 'other_request':
      throw otherRequest()
  }
}

function whoamiJson(principal: Principal) {
  return {
    actor: principalActor(principal),
    kind: principal.kind,
    name: principalName(principal) ?? null,
    permissions: PERMISSIONS.filter(permission => holds(principal, permission)),
    workspaces: allowedWorkspaces(principal),
    expiresAt: principal.kind === 'token' ? toInstant(principal.token.expiresAtMs) : null,
  }
}

function tokenJson(token: AdminToken) {
  const { id, name, hint, permissions, workspaces, createdBy } = token
  return {
    id,
    name,
    hint,
    permissions,
    workspaces,
    createdAt: toInstant(token.createdAtMs),
    createdBy,
    expiresAt: toInstant(token.expiresAtMs),
    revokedAt: toInstant(token.revokedAtMs),
    lastUsedAt: toInstant(token.lastUsedAtMs),
  }
}
