import { type ClientHttp2Session, connect, type OutgoingHttpHeaders } from 'node:http2'
import { whenOver } from './patience.ts'

/** A request of a client of HTTP/2 or HTTP/3. The body and the trailers are sent without a length unless the headers hold one. */
export interface StreamRequest {
  readonly headers: OutgoingHttpHeaders
  /** Chunks of a body; an empty one is a frame without bytes. */
  readonly body?: readonly string[]
  readonly trailers?: OutgoingHttpHeaders
}

/** A status, or the reason for which there is none. */
export type Outcome = number | string

/** Uses all connections at once, without TLS by prior knowledge, and sends the requests of each one after another. */
export async function sendOverHttp2(
  url: string,
  connections: readonly (readonly StreamRequest[])[],
  patienceMs: number,
): Promise<Outcome[]> {
  const outcomes = await Promise.all(connections.map(requests => useConnection(url, requests, patienceMs)))
  return outcomes.flat()
}

async function useConnection(
  url: string,
  requests: readonly StreamRequest[],
  patienceMs: number,
): Promise<Outcome[]> {
  const session = connect(url, { rejectUnauthorized: false })
  const ended = Promise.withResolvers<string>()
  session.on('error', error => ended.resolve(error.message)).on('close', () => ended.resolve('closed'))
  const outcomes: Outcome[] = []
  for (const request of requests) {
    outcomes.push(await Promise.race([statusOf(session, request, patienceMs), ended.promise]))
  }
  session.destroy()
  return outcomes
}

function statusOf(session: ClientHttp2Session, request: StreamRequest, patienceMs: number): Promise<Outcome> {
  const { promise, resolve } = Promise.withResolvers<Outcome>()
  if (session.destroyed) return Promise.resolve('closed')
  const { body = [], trailers } = request
  const stream = session.request(request.headers, {
    endStream: body.length === 0 && trailers === undefined,
    waitForTrailers: trailers !== undefined,
  })
  let status: Outcome = 'no response'
  stream.on('response', headers => {
    status = headers[':status'] ?? 'no status'
  })
  stream.on('wantTrailers', () => stream.sendTrailers(trailers ?? {}))
  stream.on('error', error => resolve(error.message))
  stream.on('close', () => resolve(status))
  stream.resume()
  for (const chunk of body) stream.write(chunk)
  if (body.length > 0 || trailers !== undefined) stream.end()
  return promise.finally(whenOver(patienceMs, () => stream.close()))
}
