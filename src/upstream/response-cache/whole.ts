import { fieldsOf, type WholeAnswer, wholeAnswer, writeWhole } from '../../http/buffered-response.ts'
import { bytesOf } from '../../http/byte-string.ts'
import type { Asker } from './waiter.ts'

/**
 * An answer of the upstream, whole, and without anything of the one who is given it.
 * @param body null where its status allows for none
 */
export function sharedAnswer(
  status: number,
  { 'content-length': _counted, ...headers }: Readonly<Record<string, string>>,
  body: Buffer | null,
): WholeAnswer {
  const fields = fieldsOf({ ...headers, 'x-content-type-options': 'nosniff' })
  return wholeAnswer(status, fields, body === null ? null : bytesOf(body))
}

/** Each caller is told its own request id, and how its own limits stand. */
export function give({ reply, seen }: Asker, answer: WholeAnswer): void {
  seen.source = 'upstream'
  seen.phase = 'streaming'
  seen.responseBytes = writeWhole(reply.hijack().raw, answer, seen.requestId)
}
