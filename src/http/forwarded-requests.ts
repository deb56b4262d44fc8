import type { ServerResponse } from 'node:http'

/** A request whose response comes from the upstream. */
export interface ForwardedRequest {
  readonly response: ServerResponse
  /** In flight until the response is handed over to Node. */
  readonly observation: { readonly isInFlight: boolean }
}

/** The forwarded requests of one connection, of which there are few. */
export class ForwardedRequests {
  readonly #requests: ForwardedRequest[] = []

  add(request: ForwardedRequest): void {
    if (!this.#requests.includes(request)) this.#requests.push(request)
  }

  /** Call when a response has closed, also that of a request that was not forwarded. */
  delete(response: ServerResponse): void {
    const index = this.#requests.findIndex(request => request.response === response)
    if (index >= 0) this.#requests.splice(index, 1)
  }

  /** Whether the response that is to be sent next is still expected from the upstream. */
  get isNextExpected(): boolean {
    return this.#requests.some(({ response, observation }) => {
      // Node assigns the socket to one response at a time, in the order of the requests.
      return response.socket !== null && observation.isInFlight
    })
  }
}
