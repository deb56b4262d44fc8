import type { ServerResponse } from 'node:http'

const LISTENERS = new WeakMap<ServerResponse, () => void>()

/** Ends an answer. From then on it costs its client's connection alone, however slowly the client reads. */
export function handOver(response: ServerResponse, body?: string | Uint8Array): void {
  if (body === undefined) response.end()
  else response.end(body, 'latin1')
  LISTENERS.get(response)?.()
}

/** Calls back once an answer has been handed over; an answer that is broken off only closes. */
export function onHandedOver(response: ServerResponse, listener: () => void): void {
  LISTENERS.set(response, listener)
}
