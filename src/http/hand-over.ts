import type { ServerResponse } from 'node:http'

const HANDED_OVER = Symbol('handed over')

declare module 'node:http' {
  interface ServerResponse {
    [HANDED_OVER]?: () => void
  }
}

/** Ends an answer. From then on it costs its client's connection alone, however slowly the client reads. */
export function handOver(response: ServerResponse, body?: string | Uint8Array): void {
  if (body === undefined) response.end()
  else response.end(body, 'latin1')
  response[HANDED_OVER]?.()
}

/** Calls back once an answer has been handed over; an answer that is broken off only closes. */
export function onHandedOver(response: ServerResponse, listener: () => void): void {
  response[HANDED_OVER] = listener
}
