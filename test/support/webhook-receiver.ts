import { once } from 'node:events'
import { createServer, type IncomingHttpHeaders, type Server, type ServerResponse } from 'node:http'
import { portOf } from './port-of.ts'

export interface Received {
  readonly url: string
  readonly headers: IncomingHttpHeaders
  readonly body: string
}

/** A real server that receives webhooks and responds as a test wants. */
export class WebhookReceiver {
  readonly received: Received[] = []
  answer: (response: ServerResponse, number: number) => void = response => response.writeHead(204).end()
  readonly #server: Server

  private constructor() {
    this.#server = createServer(async (request, response) => {
      const chunks: Buffer[] = []
      for await (const chunk of request) chunks.push(chunk)
      const body = Buffer.concat(chunks).toString('utf8')
      this.received.push({ url: request.url ?? '', headers: request.headers, body })
      this.answer(response, this.received.length)
    })
  }

  static async start(): Promise<WebhookReceiver> {
    const receiver = new WebhookReceiver()
    receiver.#server.listen(0, '127.0.0.1')
    await once(receiver.#server, 'listening')
    return receiver
  }

  get url(): string {
    return `http://127.0.0.1:${portOf(this.#server)}/hooks/postern`
  }

  /** Types of the received events, in order. */
  get types(): unknown[] {
    return this.received.map(({ body }) => JSON.parse(body).type)
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections()
    this.#server.close()
    await once(this.#server, 'close')
  }
}
