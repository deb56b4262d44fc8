import type { ServerResponse } from 'node:http'
import type { ByteString } from './byte-string.ts'
import { handOver } from './hand-over.ts'

interface PendingFlush {
  readonly response: ServerResponse
  readonly body: ByteString | Buffer
}

/** Bounds how long a response waits for the others of a busy turn of the event loop. */
export const MAX_BATCH = 16

let pending: PendingFlush[] = []

/**
 * Ends a response whose head is set, in one batch with the others that are ready in the same turn of the event loop.
 * The first write wakes the reading process, which costs as much as the write itself. Later writes in the turn do not.
 */
export function flushInBatch(response: ServerResponse, body: ByteString | Buffer): void {
  if (pending.length === 0) setImmediate(flush)
  pending.push({ response, body })
  if (pending.length === MAX_BATCH) flush()
}

function flush(): void {
  const batch = pending
  pending = []
  for (const { response, body } of batch) handOver(response, body)
}
