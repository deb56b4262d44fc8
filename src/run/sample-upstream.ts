import type { Server } from 'node:http'
import { createServer } from '../http/node-http.ts'
import { requestTimeouts } from '../http/server-options.ts'

/** Takes the made-up webhook events of the demo. */
export const WEBHOOK_PATH = '/webhook'
const REQUEST_TIMEOUT_MS = 10_000

interface Workspace {
  readonly id: string
  readonly name: string
  readonly createdAt: string
}

const WORKSPACES: Readonly<Record<string, Workspace>> = {
  ws_1: { id: 'ws_1', name: 'Design', createdAt: '2025-03-04T10:00:00.000Z' },
  ws_2: { id: 'ws_2', name: 'Legal', createdAt: '2025-06-11T08:30:00.000Z' },
}

export const WORKSPACE_NAMES: Readonly<Record<string, string>> = Object.fromEntries(
  Object.values(WORKSPACES).map(({ id, name }) => [id, name]),
)

const FILES: Readonly<Record<string, readonly { id: string; name: string; bytes: number }[]>> = {
  ws_1: [
    { id: 'f_1', name: 'brand.pdf', bytes: 184_320 },
    { id: 'f_2', name: 'logo.svg', bytes: 5_104 },
    { id: 'f_3', name: 'palette.json', bytes: 912 },
  ],
  ws_2: [{ id: 'f_9', name: 'contract.docx', bytes: 48_220 }],
}

/** A sample service for the demo, with workspaces and files. It checks no keys: the gateway does. */
export function createSampleUpstream(): Server {
  return createServer(requestTimeouts(REQUEST_TIMEOUT_MS), (request, response) => {
    const url = new URL(request.url ?? '/', 'http://sample')
    if (request.method === 'POST' && url.pathname === WEBHOOK_PATH) {
      request.resume()
      response.writeHead(204).end()
      return
    }
    const resource = findResource(url.pathname, url.searchParams)
    const body = JSON.stringify(resource ?? { code: 'not_found', error: 'No such workspace' })
    response.writeHead(resource === null ? 404 : 200, {
      'content-type': 'application/json',
      'content-length': Buffer.byteLength(body),
    })
    response.end(body)
  })
}

/** @returns the JSON to send; null if there is no such workspace */
function findResource(path: string, query: URLSearchParams): unknown {
  const [, id = '', files] = /^\/api\/v1\/workspaces\/([^/]+)(\/files)?$/.exec(path) ?? []
  const workspace = Object.hasOwn(WORKSPACES, id) ? WORKSPACES[id] : undefined
  if (workspace === undefined) return null
  if (files === undefined) return workspace
  return { files: (FILES[id] ?? []).slice(0, Number(query.get('limit') ?? 100)) }
}
