import type { FastifyReply } from 'fastify'
import type { RequestObservation } from '../../observability/request-observer.ts'
import { withOwnFields } from '../whole-answer.ts'
import { isKnownTo, type KeptAnswer } from './kept-answer.ts'

/**
 * Writes a kept answer, or the 304 in its place.
 * @param ageSeconds null where the upstream has just said that it is the answer
 */
export function giveKept(
  reply: FastifyReply,
  seen: RequestObservation,
  kept: KeptAnswer,
  ageSeconds: number | null,
): void {
  const known = isKnownTo(reply.request.raw.headers, kept)
  seen.source = 'upstream'
  seen.phase = 'streaming'
  seen.responseBytes = known ? 0 : kept.length
  const fields = (known ? kept.fieldsUnchanged : kept.fields).concat('x-request-id', seen.requestId)
  if (ageSeconds !== null) fields.push('age', String(ageSeconds))
  const response = reply.hijack().raw
  response.writeHead(known ? 304 : 200, withOwn(fields, reply))
  if (known) response.end()
  else if (typeof kept.body === 'string') response.end(kept.body, 'latin1')
  else response.end(kept.body)
}

/** Mostly there are none; where there are, they may be of names that the upstream uses, too. */
function withOwn(fields: string[], reply: FastifyReply) {
  const own = reply.getHeaders()
  for (const _name in own) {
    const named: Record<string, string> = {}
    for (let index = 0; index < fields.length; index += 2)
      named[fields[index] ?? ''] = fields[index + 1] ?? ''
    return withOwnFields(named, reply)
  }
  return fields
}
