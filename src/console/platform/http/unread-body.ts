import type { FastifyInstance } from 'fastify'
import { hasBody } from '../../../http/request-body.ts'

/**
 * Asks a client that waits for a 100 for its body only once the request is authenticated. Closes the connection after a
 * response that came before the body, such as a 401: the rest would otherwise occupy the connection for as long as a
 * client may take to send it.
 */
export function admitBeforeBody(app: FastifyInstance): void {
  app.addHook('preParsing', async ({ raw, is404 }, reply) => {
    const waits = raw.headers.expect !== undefined && raw.httpVersion === '1.1'
    if (!waits || is404 || !hasBody(raw)) return
    if (!raw.complete) reply.raw.writeContinue()
    // Node would close the connection, because no 100 was sent (RFC 9110, section 10.1.1, allows to omit it).
    else if (reply.raw.shouldKeepAlive) void reply.header('connection', 'keep-alive')
  })
  app.addHook('onSend', async ({ raw }, reply) => {
    if (hasBody(raw) && !raw.complete) void reply.header('connection', 'close')
  })
}
