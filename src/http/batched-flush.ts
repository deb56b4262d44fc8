import type { ServerResponse } from 'node:http'
import type { ByteString } from './byte-string.ts'
import { handOver } from './hand-over.ts'

interface Ending {
  readonly response: ServerResponse
  readonly body: ByteString | Buffer
}

/** What is ready is not to wait for all that a busy turn of the event loop still brings. */
export const MOST_TOGETHER = 16

let waiting: Ending[] = []

/**
 * Ends an answer whose head is written down, together with others that are ready in the same turn of the event loop. The
 * first write wakes the reader at the other end, which costs as much as the write itself; later ones in the same turn
 * find it awake.
 */
export function endTogether(response: ServerResponse, body: ByteString | Buffer): void {
  if (waiting.length === 0) setImmediate(endAll)
  waiting.push({ response, body })
  if (waiting.length === MOST_TOGETHER) endAll()
}

function endAll(): void {
  const endings = waiting
  waiting = []
  for (const { response, body } of endings) handOver(response, body)
}
