import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Denial } from '../domain/denial.ts'
import type { RequestObservation } from '../observability/request-observation.ts'

/** A client's request, its response and its observation. */
export interface ClientRequest {
  readonly message: IncomingMessage
  readonly response: ServerResponse
  /** What logs, metrics and traces record when the request ends. It holds the request id. */
  readonly observation: RequestObservation
}

/**
 * Responds to a request with a denial.
 * @param closesConnection closes the connection also if the denial's row does not: its rest must not be read
 */
export type Deny = (request: ClientRequest, denial: Denial, closesConnection?: boolean) => void
