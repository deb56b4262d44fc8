import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { portOf } from './port-of.ts'

export interface AdminRequest {
  readonly method: string
  /** With the query string. */
  readonly path: string
  readonly headers: IncomingMessage['headers']
  readonly body: unknown
}

type Script = (request: AdminRequest, response: ServerResponse) => void

export const TOKEN = 'the-admin-token-of-a-test'

/** An admin API with scripted responses that records its requests. */
export class ScriptedAdmin {
  readonly requests: AdminRequest[] = []
  /** One script for each request; the last one repeats. */
  script: Script[] = []
  readonly #server: Server

  private constructor() {
    this.#server = createServer((request, response) => void this.#serve(request, response))
  }

  static async start(): Promise<ScriptedAdmin> {
    const admin = new ScriptedAdmin()
    admin.#server.listen(0, '127.0.0.1')
    await once(admin.#server, 'listening')
    return admin
  }

  get url(): string {
    return `http://127.0.0.1:${portOf(this.#server)}`
  }

  /** Environment in which a command finds it. */
  get env(): Record<string, string> {
    return { POSTERN_CONSOLE_URL: this.url, POSTERN_ADMIN_TOKEN: TOKEN }
  }

  answers(...script: Script[]): void {
    this.requests.length = 0
    this.script = script
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections()
    await new Promise(resolve => this.#server.close(resolve))
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const text = (await request.toArray()).join('')
    const body: unknown = text === '' ? undefined : JSON.parse(text)
    const { method = '', url = '', headers } = request
    const asked = { method, path: url, headers, body }
    this.requests.push(asked)
    const script = this.script.length > 1 ? this.script.shift() : this.script[0]
    script?.(asked, response)
  }
}

export function says(status: number, json: unknown): Script {
  return (_, response) => {
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(json))
  }
}

export const refuses = (status: number, code: string, error: string) => says(status, { code, error })

/** Reads the request and closes the connection. */
export const breaksOff: Script = (_, response) => void response.destroy()

export function keyJson(changes: Record<string, unknown> = {}): Record<string, unknown> {
  return {
    id: 'key_01JD0000000000000000000000',
    workspaceId: 'ws_1',
    name: 'billing importer',
    scopes: ['files:read', 'workspace:read'],
    hint: 'wsk_…x7Qf',
    createdAt: '2026-11-01T00:00:00.000Z',
    createdBy: 'admin-token',
    expiresAt: '2999-02-01T00:00:00.000Z',
    revokedAt: null,
    rotatedFrom: null,
    replacedBy: null,
    version: 1,
    state: 'active',
    lastUsedAt: null,
    ...changes,
  }
}
