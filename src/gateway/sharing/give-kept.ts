import type { FastifyReply } from 'fastify'
import type { RequestObservation } from '../../observability/request-observer.ts'
import { NO_BYTES } from '../byte-string.ts'
import { endTogether } from '../end-together.ts'
import { otherFields } from '../whole-answer.ts'
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
  const response = reply.hijack().raw
  const fields = [
    ...otherFields(known ? kept.fieldsUnchanged : kept.fields, response),
    'x-request-id',
    seen.requestId,
  ]
  if (ageSeconds !== null) fields.push('age', String(ageSeconds))
  response.writeHead(known ? 304 : 200, fields)
  endTogether(response, known ? NO_BYTES : kept.body)
}
