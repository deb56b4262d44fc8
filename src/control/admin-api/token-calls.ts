import type { FastifyReply, FastifyRequest } from 'fastify'
import { isTokenId, tokenJson } from '../access/admin-token.ts'
import type { AdminTokens, TokenResult, TokenSuccess } from '../access/admin-tokens.ts'
import { ApiError, invalidField } from '../http/api-error.ts'
import type { AdminCall } from '../http/calls.ts'
import { principalOf, readRequestContext } from '../http/request-context.ts'
import { emptyBody, type PageQuery, type TokenBody, tokenBody, tokensQuery } from './admin-schemas.ts'
import { DEFAULT_PAGE_SIZE } from './request-parameters.ts'

const PERMISSION = { permission: 'tokens:write', workspaces: 'own' } as const

/** The admin API on its own tokens, without the prefix. */
export function tokenCalls(tokens: AdminTokens): AdminCall[] {
  return [
    {
      method: 'POST',
      url: '/tokens',
      operation: 'token_issue',
      ...PERMISSION,
      schema: { body: tokenBody },
      handle: (request, reply) => issue(tokens, request, reply),
    },
    {
      method: 'GET',
      url: '/tokens',
      operation: 'tokens',
      ...PERMISSION,
      schema: { querystring: tokensQuery },
      handle: request => list(tokens, request),
    },
    {
      method: 'POST',
      url: '/tokens/:tokenId/revoke',
      operation: 'token_revoke',
      ...PERMISSION,
      schema: { body: emptyBody },
      handle: request => revoke(tokens, request),
    },
  ]
}

async function issue(tokens: AdminTokens, request: FastifyRequest, reply: FastifyReply) {
  // The route's schema has validated the body.
  const body = request.body as TokenBody
  const result = await tokens.issue(principalOf(request), body, readRequestContext(request))
  const { token, secret, replayed } = requireSuccess(result)
  if (replayed) void reply.header('idempotency-replayed', 'true')
  return reply.code(201).send({ token: tokenJson(token), secret: secret?.reveal() ?? null })
}

async function list(tokens: AdminTokens, request: FastifyRequest) {
  // The route's schema has validated the query.
  const { limit, cursor } = request.query as PageQuery
  const page = { limit: Number(limit ?? DEFAULT_PAGE_SIZE), afterId: cursor ?? null }
  const { tokens: found, nextAfterId } = await tokens.list(principalOf(request), page)
  const answered = { tokens: found.map(tokenJson), hasMore: nextAfterId !== null }
  return nextAfterId === null ? answered : { ...answered, cursor: nextAfterId }
}

async function revoke(tokens: AdminTokens, request: FastifyRequest) {
  // The router yields a text for each parameter in the path.
  const { tokenId } = request.params as { tokenId: string }
  if (!isTokenId(tokenId)) throw noSuchToken()
  const result = await tokens.revoke(principalOf(request), tokenId, readRequestContext(request))
  return { token: tokenJson(requireSuccess(result).token) }
}

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
      throw noSuchToken()
    case 'other_request':
      throw new ApiError(
        'idempotency_mismatch',
        'This Idempotency-Key was used for a different request; use a new one',
      )
  }
}

function noSuchToken(): ApiError {
  return new ApiError('not_found', 'No such token')
}
