import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { json } from 'node:stream/consumers'
import type { KeyRecord } from '../../src/domain/key/key-record.ts'
import { encodeRecord } from '../../src/domain/wire.ts'
import { portOf } from './port-of.ts'

type Script = (request: IncomingMessage, response: ServerResponse) => void

export const KEY_SERVICE_TOKEN = 'the-key-service-token-of-a-test'

/** A key service that serves `records` by the contract, until a test sets another script. */
export class ScriptedKeyService {
  readonly records = new Map<string, KeyRecord>()
  readonly requests: { path: string; authorization: string | undefined }[] = []
  /** Digests of each batch call. */
  readonly batches: string[][] = []
  /** Usage reports: key ids with the time of last use. */
  readonly used: Record<string, number>[] = []
  /** The same reports with all their fields. */
  readonly usageReports: Record<string, unknown>[] = []
  script: Script = (request, response) => this.byTheContract(request, response)
  readonly #server: Server

  private constructor() {
    this.#server = createServer((request, response) => {
      this.requests.push({ path: request.url ?? '', authorization: request.headers.authorization })
      this.script(request, response)
    })
  }

  static async start(): Promise<ScriptedKeyService> {
    const keyService = new ScriptedKeyService()
    keyService.#server.listen(0, '127.0.0.1')
    await once(keyService.#server, 'listening')
    return keyService
  }

  get url(): string {
    return `http://127.0.0.1:${portOf(this.#server)}`
  }

  byTheContract(request: IncomingMessage, response: ServerResponse): void {
    const name = request.url?.split('/').at(-1) ?? ''
    if (name === 'lookups') void this.#answerMany(request, response)
    else if (name === 'usage') void this.#noteUsage(request, response)
    else this.#answerOne(name, response)
  }

  #answerOne(digest: string, response: ServerResponse): void {
    const record = this.records.get(digest)
    if (record === undefined) answer(response, 404, '{"code":"not_found","error":"No such key"}')
    else answer(response, 200, encodeRecord(record, digest, null))
  }

  async #noteUsage(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const report = (await json(request)) as { used: Record<string, number> }
    this.used.push(report.used)
    this.usageReports.push(report)
    answer(response, 200, '{}')
  }

  async #answerMany(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { digests } = (await json(request)) as { digests: string[] }
    this.batches.push(digests)
    const records = digests.map(digest => {
      const record = this.records.get(digest)
      return [digest, record === undefined ? null : JSON.parse(encodeRecord(record, digest, null))]
    })
    answer(response, 200, JSON.stringify({ records: Object.fromEntries(records) }))
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections()
    await new Promise(resolve => this.#server.close(resolve))
  }
}

export function answer(
  response: ServerResponse,
  status: number,
  body: string,
  headers: Record<string, string> = {},
): void {
  response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(body)
}
