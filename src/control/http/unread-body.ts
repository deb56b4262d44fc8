import type { FastifyInstance, FastifyRequest } from 'fastify'

/**
 * Closes the connection after a response that came before the body of its request, such as a 401: the rest of the body
 * would otherwise occupy the connection for as long as a client may take to send it.
 */
export function closeAfterUnreadBody(app: FastifyInstance): void {
  app.addHook('onSend', async (request, reply) => {
    if (hasUnreadBody(request)) void reply.header('connection', 'close')
  })
}

function hasUnreadBody({ raw: { headers, complete } }: FastifyRequest): boolean {
  const length = headers['content-length']
  const hasBody = headers['transfer-encoding'] !== undefined || (length !== undefined && length !== '0')
  return hasBody && !complete
}
