import type { IncomingMessage } from 'node:http'

/** Whether a body follows the head, by its framing: an empty one does not count. */
export function hasBody({ headers }: Pick<IncomingMessage, 'headers'>): boolean {
  return headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0
}
