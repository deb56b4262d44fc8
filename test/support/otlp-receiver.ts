import { once } from 'node:events'
import { createServer } from 'node:http'
import { portOf } from './port-of.ts'

export interface ReceivedSpan {
  readonly traceId: string
  readonly spanId: string
  readonly parentSpanId?: string
  readonly name: string
  readonly attributes: Readonly<Record<string, unknown>>
}

interface OtlpValue {
  readonly stringValue?: string
  readonly intValue?: number | string
  readonly boolValue?: boolean
}
interface OtlpSpan {
  readonly traceId: string
  readonly spanId: string
  readonly parentSpanId?: string
  readonly name: string
  readonly attributes: readonly { readonly key: string; readonly value: OtlpValue }[]
}
interface OtlpRequest {
  readonly resourceSpans: readonly {
    readonly scopeSpans: readonly { readonly spans: readonly OtlpSpan[] }[]
  }[]
}

/** A minimal OTLP collector (HTTP, JSON) that records the spans it receives. */
export class OtlpReceiver {
  readonly spans: ReceivedSpan[] = []
  /** Every request body as received. */
  text = ''
  readonly #server = createServer(async (request, response) => {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk as Buffer)
    const body = Buffer.concat(chunks).toString('utf8')
    this.text += body
    if (request.url === '/v1/traces') this.#keep(JSON.parse(body) as OtlpRequest)
    response.writeHead(200, { 'content-type': 'application/json' }).end('{}')
  })

  static async start(): Promise<OtlpReceiver> {
    const receiver = new OtlpReceiver()
    receiver.#server.listen(0, '127.0.0.1')
    await once(receiver.#server, 'listening')
    return receiver
  }

  get url(): string {
    return `http://127.0.0.1:${portOf(this.#server)}`
  }

  stop(): void {
    this.#server.closeAllConnections()
    this.#server.close()
  }

  #keep({ resourceSpans }: OtlpRequest): void {
    for (const { traceId, spanId, parentSpanId, name, attributes } of resourceSpans.flatMap(
      ({ scopeSpans }) => scopeSpans.flatMap(({ spans }) => spans),
    )) {
      const values = attributes.map(({ key, value }) => [
        key,
        value.stringValue ?? value.intValue ?? value.boolValue,
      ])
      const parent = parentSpanId === undefined ? {} : { parentSpanId }
      this.spans.push({ traceId, spanId, ...parent, name, attributes: Object.fromEntries(values) })
    }
  }
}
