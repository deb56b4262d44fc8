import { once } from 'node:events'
import { type Agent, request as httpRequest, type IncomingMessage } from 'node:http'
import { connect, type Socket } from 'node:net'

export interface Answer {
  readonly status: number
  readonly headers: IncomingMessage['headers']
  readonly body: Buffer
  /** Whether the body arrived in full, as its framing announced. */
  readonly complete: boolean
  readonly text: string
  readonly socket: Socket
}

/** Sends one request with Node's own client, on a new connection unless an agent is given. */
export async function get(
  port: number,
  path: string,
  headers: Record<string, string> = {},
  agent?: Agent,
): Promise<Answer> {
  const request = httpRequest({
    host: '127.0.0.1',
    port,
    path,
    headers,
    ...(agent ? { agent } : { agent: false }),
  })
  request.end()
  const [response] = (await once(request, 'response')) as [IncomingMessage]
  const { socket } = response
  const chunks: Buffer[] = []
  response.on('data', chunk => chunks.push(chunk)).on('error', () => {})
  await new Promise(resolve => response.on('close', resolve))
  const body = Buffer.concat(chunks)
  return {
    status: response.statusCode ?? 0,
    headers: response.headers,
    body,
    complete: response.complete,
    text: body.toString(),
    socket,
  }
}

export interface RawAnswer {
  readonly text: string
  /** How the connection ended: orderly, or by a reset. */
  readonly ended: 'closed' | 'reset'
}

/** Sends exact bytes, and returns the exact bytes received until the connection ends. */
export async function exchangeRaw(port: number, bytes: string): Promise<RawAnswer> {
  const socket = connect(port, '127.0.0.1')
  const chunks: Buffer[] = []
  let ended: RawAnswer['ended'] = 'closed'
  socket
    .on('data', chunk => chunks.push(chunk))
    .on('error', () => {
      ended = 'reset'
    })
  socket.write(bytes)
  await new Promise(resolve => socket.on('close', resolve))
  return { text: Buffer.concat(chunks).toString('latin1'), ended }
}
