import { once } from 'node:events'
import { createServer, type Server, type Socket } from 'node:net'
import { portOf } from './port-of.ts'

/** A scripted reply: a line such as `-LOADING …` or `OK`, null for a missing key, or a list. */
export type Reply = string | number | null | readonly Reply[]

/** A server that speaks RESP and replies as a test scripts it. */
export class ScriptedRedis {
  readonly commands: string[][] = []
  script: (command: readonly string[]) => Reply
  readonly #server: Server
  readonly #sockets = new Set<Socket>()

  private constructor(script: (command: readonly string[]) => Reply) {
    this.script = script
    this.#server = createServer(socket => this.#serve(socket))
  }

  static async start(script: (command: readonly string[]) => Reply): Promise<ScriptedRedis> {
    const redis = new ScriptedRedis(script)
    redis.#server.listen(0, '127.0.0.1')
    await once(redis.#server, 'listening')
    return redis
  }

  get port(): number {
    return portOf(this.#server)
  }

  get address(): string {
    return `127.0.0.1:${this.port}`
  }

  stop(): void {
    for (const socket of this.#sockets) socket.destroy()
    this.#server.close()
  }

  /** Publishes messages to every connected client. */
  publish(channel: string, texts: readonly string[]): void {
    const messages = texts.map(text => encode(['message', channel, text])).join('')
    for (const socket of this.#sockets) socket.write(messages)
  }

  #serve(socket: Socket): void {
    this.#sockets.add(socket)
    socket.on('error', () => {})
    socket.on('close', () => this.#sockets.delete(socket))
    let received = ''
    socket.on('data', chunk => {
      received += chunk.toString('latin1')
      for (let parsed = parse(received); parsed !== null; parsed = parse(received)) {
        received = received.slice(parsed.length)
        this.commands.push(parsed.command)
        const [name = '', ...rest] = parsed.command
        const command = [name.toUpperCase(), ...rest]
        // Subscriptions succeed, independent of the script.
        const reply =
          name.toUpperCase() === 'SUBSCRIBE' ? ['subscribe', rest[0] ?? '', 1] : this.script(command)
        socket.write(encode(reply))
      }
    })
  }
}

function encode(reply: Reply): string {
  if (reply === null) return '$-1\r\n'
  if (typeof reply === 'number') return `:${reply}\r\n`
  if (typeof reply !== 'string') return `*${reply.length}\r\n${reply.map(encode).join('')}`
  return reply.startsWith('-') ? `${reply}\r\n` : `$${reply.length}\r\n${reply}\r\n`
}

/** @returns the first command, if it is complete */
function parse(text: string): { command: string[]; length: number } | null {
  const head = /^\*(\d+)\r\n/.exec(text)
  if (head === null) return null
  let at = head[0].length
  const command: string[] = []
  for (let left = Number(head[1]); left > 0; left--) {
    const size = /^\$(\d+)\r\n/.exec(text.slice(at))
    if (size === null) return null
    const from = at + size[0].length
    const to = from + Number(size[1])
    if (text.length < to + 2) return null
    command.push(text.slice(from, to))
    at = to + 2
  }
  return { command, length: at }
}
