import type { FastifyReply } from 'fastify'
import type { Permit } from '../domain/authorize.ts'
import { type Denial, denialRow } from '../domain/denial.ts'
import type { KeyGrant } from '../domain/key-record.ts'
import { fieldsOf, type WholeAnswer, wholeAnswer, writeWhole } from '../http/buffered-response.ts'
import { asByteString, bytesOf } from '../http/byte-string.ts'
import { endConnectionAfter } from '../http/guard-connections.ts'
import type { RequestObservation } from '../observability/request-observer.ts'
import { type Refusal, refusalOf } from './refusal.ts'

/** The three ways in which a request ends here. */
export interface Answer {
  /** @param close whether the rest of the connection is not to be read, whatever the reason says */
  refuse(reply: FastifyReply, seen: RequestObservation, denial: Denial, close?: boolean): void
  /** `GET /api/v1/auth`: what the caller's own key is. */
  describeKey(reply: FastifyReply, seen: RequestObservation, permit: Permit): void
  forward(reply: FastifyReply, seen: RequestObservation, permit: Permit): void
}

export function createRefuse(): Answer['refuse'] {
  // Most refusals are one of a few that say nothing of the single request.
  const prepared = new WeakMap<Refusal, WholeAnswer>()
  return (reply, seen, denial, close = false) => {
    const refusal = refusalOf(denial)
    const { responsible, closesConnection } = denialRow(denial.reason)
    seen.reason = denial.reason
    if (responsible === 'upstream') seen.source = 'upstream'
    const response = reply.hijack().raw
    if (close || closesConnection === true) {
      endConnectionAfter(response.req)
      response.setHeader('connection', 'close')
    }
    let answer = prepared.get(refusal)
    if (answer === undefined) {
      answer = wholeAnswer(refusal.status, fieldsOf(refusal.headers), bytesOf(refusal.body))
      prepared.set(refusal, answer)
    }
    seen.responseBytes = writeWhole(response, answer, seen.requestId)
  }
}

const DESCRIPTION_FIELDS = fieldsOf({
  'content-type': 'application/json; charset=utf-8',
  'cache-control': 'no-store',
  'x-content-type-options': 'nosniff',
})

export const describeKey: Answer['describeKey'] = (reply, seen, { grant }) => {
  seen.responseBytes = writeWhole(reply.hijack().raw, descriptionOf(grant), seen.requestId)
}

/** `GET /api/v1/auth` for this key. */
export function descriptionOf({ workspaceId, scopes, id, hint, expiresAtMs }: KeyGrant): WholeAnswer {
  const expiresAt = new Date(expiresAtMs).toISOString()
  // Only a hint may be beyond ASCII. Taken to bytes before, it leaves the whole text at one byte a character, which JSON
  // and a write take half the time for.
  const body = JSON.stringify({ workspaceId, scopes, keyId: id, hint: bytesOf(hint), expiresAt })
  return wholeAnswer(200, DESCRIPTION_FIELDS, asByteString(body))
}
