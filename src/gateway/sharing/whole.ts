import type { OutgoingHttpHeaders } from 'node:http'
import { withOwnFields } from '../whole-answer.ts'
import type { Asker } from './asker.ts'

/** An answer of the upstream, whole, and without anything of the one who is given it. */
export interface SharedAnswer {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  /** Null where its status allows for none. */
  readonly body: Buffer | string | null
}

/** Each caller is told its own request id, and how its own limits stand. */
export function give({ reply, seen }: Asker, { status, headers, body }: SharedAnswer): void {
  const fields: OutgoingHttpHeaders = { ...headers }
  fields['x-content-type-options'] = 'nosniff'
  fields['x-request-id'] = seen.requestId
  const length = body === null ? 0 : Buffer.byteLength(body)
  if (body !== null) fields['content-length'] = length
  seen.source = 'upstream'
  seen.phase = 'streaming'
  seen.responseBytes = length
  const response = reply.hijack().raw.writeHead(status, withOwnFields(fields, reply))
  if (body === null) response.end()
  else response.end(body)
}
