import { type ClientHttp2Session, connect, type OutgoingHttpHeaders } from 'node:http2'

/** A request of an HTTP/2 client. The body and the trailers are sent without a length unless the headers hold one. */
export interface Http2Request {
  readonly headers: OutgoingHttpHeaders
  /** Chunks of a body; an empty one is a DATA frame without bytes. */
  readonly body?: readonly string[]
  readonly trailers?: OutgoingHttpHeaders
}

/** Statuses, or the reasons for which there is none. */
type Outcome = number | string

/** Sends requests one after another on one connection, without TLS by prior knowledge, and waits for their ends. */
export async function sendOverHttp2(
  url: string,
  requests: readonly Http2Request[],
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

function statusOf(session: ClientHttp2Session, request: Http2Request, patienceMs: number): Promise<Outcome> {
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
  const patience = setTimeout(() => stream.close(), patienceMs)
  return promise.finally(() => clearTimeout(patience))
}
