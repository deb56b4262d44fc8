import type { ServerResponse } from 'node:http'

/** An event of our own, not one of Node's. */
const HANDED_OVER = 'handedOver'

/** Ends a response. From then on it costs its client's connection alone, however slowly the client reads. */
export function handOver(response: ServerResponse, body?: string | Uint8Array): void {
  if (body === undefined) response.end()
  else response.end(body, 'latin1')
  response.emit(HANDED_OVER)
}

/** Calls back once a response has been handed over to Node; an aborted response only closes. */
export function onHandedOver(response: ServerResponse, listener: () => void): void {
  response.on(HANDED_OVER, listener)
}
