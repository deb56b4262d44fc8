import type { FastifyRequest } from 'fastify'
import type { Caller } from '../registry/operations/audit.ts'
import type { Asked } from '../registry/operations/operation.ts'
import { actorOf } from '../sign-in/person.ts'
import { clientAddressOf } from './client-address.ts'
import { readRepetition } from './idempotency.ts'

/** Who acted, where a program did. */
const PROGRAM = 'admin-token'

/** Who asks for a change, for the audit trail: the person of the session, or else the program with the admin token. */
export function callerOf(request: FastifyRequest): Caller {
  const { person, id } = request
  const address = clientAddressOf(request)
  if (person === null) return { actor: PROGRAM, address, requestId: id }
  return { actor: actorOf(person), name: person.name, address, requestId: id }
}

export function askedBy(request: FastifyRequest): Asked {
  const caller = callerOf(request)
  return { caller, repetition: readRepetition(request, caller.actor) }
}
