import { Readable } from 'node:stream'
import type { FastifyReply, FastifyRequest } from 'fastify'

const NDJSON = 'application/x-ndjson; charset=utf-8'

/**
 * Streams NDJSON. The next part is read only once the client has taken the one before; a HEAD reads none.
 * @param readParts each part is some whole lines
 */
export function sendLines(
  { method }: FastifyRequest,
  reply: FastifyReply,
  readParts: () => AsyncGenerator<string>,
): FastifyReply {
  // Fastify would read the whole stream for a HEAD.
  const parts = method === 'HEAD' ? [] : readParts()
  return reply.type(NDJSON).send(Readable.from(parts, { objectMode: true, highWaterMark: 1 }))
}
