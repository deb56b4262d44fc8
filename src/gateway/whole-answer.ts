import type { OutgoingHttpHeaders } from 'node:http'
import type { FastifyReply } from 'fastify'

/** An answer that is known whole before its first byte is written. */
export interface WholeAnswer {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
  readonly requestId: string
}

/**
 * Written past Fastify, whose way through serialisers and hooks, none of which there are, costs as much as Node's own.
 * What was set on the reply before, such as how a limit stands, goes along.
 * @returns bytes of the body
 */
export function writeWhole(reply: FastifyReply, { status, headers, body, requestId }: WholeAnswer): number {
  const length = Buffer.byteLength(body)
  // Made anew at each call, so free to be added to; known names are typed as possibly undefined, which none is.
  const fields = reply.getHeaders() as OutgoingHttpHeaders
  Object.assign(fields, headers)
  fields['x-request-id'] = requestId
  fields['content-length'] = length
  reply.hijack().raw.writeHead(status, fields).end(body)
  return length
}

/** What we say ourselves is nobody else's to say. */
export function withOwnFields(fields: OutgoingHttpHeaders, reply: FastifyReply): OutgoingHttpHeaders {
  const own = reply.getHeaders()
  for (const name in own) fields[name] = own[name]
  return fields
}
