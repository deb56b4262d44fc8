import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Denial } from '../domain/denial.ts'
import type { RequestObservation } from '../observability/request-observation.ts'

/** A client's request on its way through the gateway. */
export interface ClientRequest {
  readonly message: IncomingMessage
  readonly response: ServerResponse
  /** What logs, metrics and traces say of the request when it ends. They name its request id. */
  readonly observation: RequestObservation
}

/**
 * Answers a request with a denial.
 * @param closesConnection overrides the reason's own row: the rest of the connection must not be read
 */
export type Refuse = (request: ClientRequest, denial: Denial, closesConnection?: boolean) => void
