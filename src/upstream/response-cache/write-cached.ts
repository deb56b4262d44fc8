import type { FastifyReply } from 'fastify'
import { endTogether } from '../../http/batched-flush.ts'
import { otherFields } from '../../http/buffered-response.ts'
import { NO_BYTES } from '../../http/byte-string.ts'
import type { RequestObservation } from '../../observability/request-observer.ts'
import { isKnownTo, type KeptAnswer } from './cached-response.ts'

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
