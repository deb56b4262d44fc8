import { once } from 'node:events'
import { createServer } from 'node:http'
import { text } from 'node:stream/consumers'
import { portOf } from './port-of.ts'

/** An HTTP collector of usage events. It records what it accepts. */
export class UsageCollector {
  /** Bodies of all requests, also of those that it did not accept. */
  readonly bodies: string[] = []
  readonly accepted: Record<string, unknown>[] = []
  method = ''
  contentType = ''
  status = 204
  readonly #server = createServer(async (request, response) => {
    const body = await text(request)
    this.bodies.push(body)
    this.method = request.method ?? ''
    this.contentType = request.headers['content-type'] ?? ''
    if (this.status < 300) this.accepted.push(...body.trimEnd().split('\n').map(parseLine))
    response.writeHead(this.status).end()
  })

  static async start(): Promise<UsageCollector> {
    const collector = new UsageCollector()
    collector.#server.listen(0, '127.0.0.1')
    await once(collector.#server, 'listening')
    return collector
  }

  get url(): string {
    return `http://127.0.0.1:${portOf(this.#server)}/usage`
  }

  stop(): void {
    this.#server.closeAllConnections()
    this.#server.close()
  }
}

function parseLine(line: string): Record<string, unknown> {
  return JSON.parse(line) as Record<string, unknown>
}
