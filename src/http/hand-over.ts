import type { ServerResponse } from 'node:http'

/** Our own event: Node emits none of this name. */
const HANDED_OVER = 'handedOver'

/** Passes the rest of a response to Node. A slow client then occupies its own connection only. */
export function handOver(response: ServerResponse, body?: string | Uint8Array): void {
  if (body === undefined) response.end()
  else response.end(body, 'latin1')
  response.emit(HANDED_OVER)
}

/** Calls `listener` when the response is handed over. An aborted response emits `close` only. */
export function onHandedOver(response: ServerResponse, listener: () => void): void {
  response.on(HANDED_OVER, listener)
}
