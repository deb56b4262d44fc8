import type { FastifyReply } from 'fastify'
import type { Permit } from '../domain/authorize.ts'
import type { KeyGrant } from '../domain/key-record.ts'
import type { Denial } from '../domain/verdict.ts'
import type { RequestObservation } from '../observability/request-observer.ts'
import type { ClientConnections } from './client-connections.ts'
import { closesConnection, type Refusal, refusalOf } from './refusal.ts'
import { fieldsOf, type WholeAnswer, wholeAnswer, writeWhole } from './whole-answer.ts'

/** The three ways in which a request ends here. */
export interface Answer {
  /** @param close whether the rest of the connection is not to be read, whatever the reason says */
  refuse(reply: FastifyReply, seen: RequestObservation, denial: Denial, close?: boolean): void
  /** `GET /api/v1/auth`: what the caller's own key is. */
  describeKey(reply: FastifyReply, seen: RequestObservation, permit: Permit): void
  forward(reply: FastifyReply, seen: RequestObservation, permit: Permit): void
}

export function createRefuse(connections: ClientConnections): Answer['refuse'] {
  // Most refusals are one of a few that say nothing of the single request.
  const prepared = new WeakMap<Refusal, WholeAnswer>()
  return (reply, seen, denial, close = false) => {
    const refusal = refusalOf(denial)
    seen.reason = denial.reason
    if (denial.reason.startsWith('upstream_')) seen.source = 'upstream'
    const response = reply.hijack().raw
    if (close || closesConnection(denial.reason)) {
      connections.condemn(response.req.socket)
      response.setHeader('connection', 'close')
    }
    let answer = prepared.get(refusal)
    if (answer === undefined) {
      answer = wholeAnswer(refusal.status, fieldsOf(refusal.headers), refusal.body)
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

/** A power of two. */
const PLACES = 256
/**
 * A key has one place, which it shares with others: the last to ask has it. To keep order among many costs more than to
 * describe one anew.
 */
const described: ({ readonly of: KeyGrant; readonly answer: WholeAnswer } | undefined)[] = new Array(PLACES)

export const describeKey: Answer['describeKey'] = (reply, seen, { grant }) => {
  seen.responseBytes = writeWhole(reply.hijack().raw, descriptionOf(grant), seen.requestId)
}

/** `GET /api/v1/auth` for this key. */
export function descriptionOf(grant: KeyGrant): WholeAnswer {
  const place = placeOf(grant.id)
  const known = described[place]
  if (known !== undefined && isDescribedAlike(known.of, grant)) return known.answer
  const answer = describe(grant)
  described[place] = { of: grant, answer }
  return answer
}

/** By its last two characters: ids end in what is random. */
function placeOf(id: string): number {
  return (31 * id.charCodeAt(id.length - 1) + id.charCodeAt(id.length - 2)) & (PLACES - 1)
}

function isDescribedAlike(a: KeyGrant, b: KeyGrant): boolean {
  return (
    a.id === b.id &&
    a.workspaceId === b.workspaceId &&
    a.expiresAtMs === b.expiresAtMs &&
    a.hint === b.hint &&
    // Grants with equal scopes mostly share one list.
    (a.scopes === b.scopes || a.scopes.join(' ') === b.scopes.join(' '))
  )
}

function describe({ workspaceId, scopes, id, hint, expiresAtMs }: KeyGrant): WholeAnswer {
  const expiresAt = new Date(expiresAtMs).toISOString()
  const body = JSON.stringify({ workspaceId, scopes, keyId: id, hint, expiresAt })
  return wholeAnswer(200, DESCRIPTION_FIELDS, body)
}
