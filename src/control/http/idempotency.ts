import type { FastifyRequest } from 'fastify'
import { type Repetition, repetitionOf } from '../registry/operations/repetition.ts'
import { invalidField } from './api-error.ts'

const VISIBLE_ASCII = /^[\x21-\x7e]{1,255}$/

/** @returns null where the caller doesn't ask for it */
export function readRepetition(request: FastifyRequest, actor: string): Repetition | null {
  const sent = request.headers['idempotency-key']
  if (sent === undefined) return null
  // Two headers of the name are joined with a comma and a space, and so are none.
  if (typeof sent !== 'string' || !VISIBLE_ASCII.test(sent)) {
    throw invalidField('Idempotency-Key', '1 to 255 visible ASCII characters, once')
  }
  const operation = request.routeOptions.config.operation ?? 'other'
  // A path's parameters and a body that its schema allows are objects; no body says what an empty one does.
  return repetitionOf(actor, sent, [operation, request.params as object, (request.body ?? {}) as object])
}
