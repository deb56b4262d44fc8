import type { FastifyReply } from 'fastify'
import type { Permit } from '../domain/authorize.ts'
import type { Denial } from '../domain/verdict.ts'
import type { RequestObservation } from '../observability/request-observer.ts'
import type { ClientConnections } from './client-connections.ts'
import { closesConnection, refusalOf } from './refusal.ts'
import { writeWhole } from './whole-answer.ts'

/** The three ways in which a request ends here. */
export interface Answer {
  /** @param close whether the rest of the connection is not to be read, whatever the reason says */
  refuse(reply: FastifyReply, seen: RequestObservation, denial: Denial, close?: boolean): void
  /** `GET /api/v1/auth`: what the caller's own key is. */
  describeKey(reply: FastifyReply, seen: RequestObservation, permit: Permit): void
  forward(reply: FastifyReply, seen: RequestObservation, permit: Permit): void
}

export function createRefuse(connections: ClientConnections): Answer['refuse'] {
  return (reply, seen, denial, close = false) => {
    const refusal = refusalOf(denial)
    seen.reason = denial.reason
    if (denial.reason.startsWith('upstream_')) seen.source = 'upstream'
    if (close || closesConnection(denial.reason)) {
      connections.condemn(reply.request.raw.socket)
      reply.header('connection', 'close')
    }
    seen.responseBytes = writeWhole(reply, { ...refusal, requestId: seen.requestId })
  }
}

const DESCRIPTION_HEADERS = {
  'content-type': 'application/json; charset=utf-8',
  'cache-control': 'no-store',
  'x-content-type-options': 'nosniff',
}

export const describeKey: Answer['describeKey'] = (reply, seen, permit) => {
  const { workspaceId, scopes, id, hint, expiresAtMs } = permit.grant
  const expiresAt = new Date(expiresAtMs).toISOString()
  const body = JSON.stringify({ workspaceId, scopes, keyId: id, hint, expiresAt })
  const { requestId } = seen
  seen.responseBytes = writeWhole(reply, { status: 200, headers: DESCRIPTION_HEADERS, body, requestId })
}
