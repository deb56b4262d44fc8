import type { IncomingMessage } from 'node:http'
import type { FastifyReply } from 'fastify'

/**
 * What reply-from sees in place of a client's request: always the same one, a GET of `/` without headers. It copies the
 * headers of the real one, and makes a URL of its path, before it asks what to send instead, which is all ours.
 */
const BLANK = {
  method: 'GET',
  url: '/',
  headers: {},
  httpVersionMajor: 1,
  complete: true,
  aborted: false,
}

/** Failures are counted and logged where they are answered. */
const SILENT = { info: () => {}, warn: () => {} }

class LeanRequest {
  readonly raw = BLANK
  readonly log = SILENT
  readonly body = undefined
  readonly forwarded: IncomingMessage

  constructor(forwarded: IncomingMessage) {
    this.forwarded = forwarded
  }
}

/** A reply of which reply-from wants status and headers set, all of which our own answer sets anew. */
class LeanReply {
  readonly sent = false
  readonly request: LeanRequest

  constructor(request: LeanRequest) {
    this.request = request
  }

  code(): this {
    return this
  }

  header(): this {
    return this
  }
}

/** As much of a reply as reply-from uses. @param request that is forwarded */
export function leanReply(request: IncomingMessage): FastifyReply {
  // Two fields and two methods of it are all that is looked at.
  return new LeanReply(new LeanRequest(request)) as unknown as FastifyReply
}

/** @param lean as reply-from hands it to its hooks */
export function forwardedRequestOf(lean: object): IncomingMessage {
  // The very object that was handed in.
  return (lean as LeanRequest).forwarded
}
