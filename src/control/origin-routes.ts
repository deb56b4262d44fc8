import type { FastifyReply, FastifyRequest } from 'fastify'
import { encodeRecord, isDigest } from '../domain/wire.ts'
import { ApiError, invalidField } from './http/api-error.ts'
import type { Call } from './http/calls.ts'
import type { KeyRepository, StoredKey } from './registry/key-repository.ts'
import type { RecordKeys } from './registry/projection.ts'

export interface OriginParts {
  readonly repository: KeyRepository
  readonly recordKeys: RecordKeys
  /** Writes what Redis did not know, off the way of the answer. */
  readonly refill: (key: StoredKey) => void
}

/** What gateways ask where Redis doesn't know, without its prefix. */
export function originCalls(parts: OriginParts): Call[] {
  return [
    {
      method: 'GET',
      url: '/keys/:digest',
      operation: 'lookup',
      handle: (request, reply) => lookUp(parts, request, reply),
    },
  ]
}

async function lookUp(
  { repository, recordKeys, refill }: OriginParts,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  // The router gives text under each name that the path has.
  const { digest } = request.params as { digest: string }
  if (!isDigest(digest)) throw invalidField('digest', '64 lower-case hexadecimal digits')
  const key = await repository.findByDigest(digest)
  // Gateways take this answer, and only this one, as proof that there is no such key.
  if (key === null) throw new ApiError('not_found', 'There is no key with this digest')
  request.keyId = key.record.id
  refill(key)
  return reply.type('application/json; charset=utf-8').send(encodeRecord(key.record, digest, recordKeys[0]))
}
