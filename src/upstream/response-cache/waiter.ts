import type { ServerResponse } from 'node:http'
import type { FastifyReply } from 'fastify'
import type { Permit } from '../../domain/authorize.ts'
import type { RequestObservation } from '../../observability/request-observer.ts'
import type { OwnRequestHeaders } from '../request-headers.ts'

/** What one waits for with others. */
interface Awaited {
  leave(asker: Asker): void
}

const ASKER = Symbol('asker')

declare module 'node:http' {
  interface IncomingMessage {
    [ASKER]?: Asker | undefined
  }
}

/** One caller, permitted by itself, that waits for an answer which others may wait for, too. */
export class Asker {
  readonly reply: FastifyReply
  readonly permit: Permit
  readonly context: OwnRequestHeaders & { readonly seen: RequestObservation }
  /** Monotonic; its time runs from here, whomever it waits for. */
  readonly sinceMs: number
  /** Whether the upstream is asked in its name. */
  leads = false
  #awaited: Awaited | null = null

  constructor(reply: FastifyReply, permit: Permit, context: Asker['context'], sinceMs: number) {
    this.reply = reply
    this.permit = permit
    this.context = context
    this.sinceMs = sinceMs
  }

  get seen(): RequestObservation {
    return this.context.seen
  }

  waitFor(awaited: Awaited): void {
    this.#awaited = awaited
    this.reply.request.raw[ASKER] = this
    this.reply.raw.on('close', onClose)
  }

  /** It waits no longer: what is finished must keep nothing alive. */
  release(): void {
    this.#awaited = null
    this.reply.request.raw[ASKER] = undefined
  }

  left(): void {
    this.#awaited?.leave(this)
    this.release()
  }
}

/** After the answer, or before it where the client left. */
function onClose(this: ServerResponse): void {
  this.req[ASKER]?.left()
}
