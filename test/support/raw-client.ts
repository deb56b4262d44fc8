import { connect, type Socket } from 'node:net'
import { whenOver } from './patience.ts'

export interface RawAnswer {
  readonly status: number
  /** Names and values as received, in order. */
  readonly fields: readonly (readonly [name: string, value: string])[]
  readonly body: string
  /** The head as received. */
  readonly head: string
}

const ANSWER_DEADLINE_MS = 10_000

/** A client connection at the level of bytes. */
export class RawClient {
  readonly socket: Socket
  received = Buffer.alloc(0)
  closed = false
  #onEvent: () => void = () => {}
  readonly #answers: RawAnswer[] = []
  /** Number of bytes of the responses in `#answers`. */
  #parsed = 0

  constructor(url: string) {
    const { hostname, port } = new URL(url)
    this.socket = connect({ host: hostname.replace(/^\[|\]$/g, ''), port: Number(port), noDelay: true })
    this.socket.on('data', chunk => {
      this.received = Buffer.concat([this.received, chunk])
      this.#onEvent()
    })
    this.socket.on('error', () => {})
    this.socket.on('close', () => {
      this.closed = true
      this.#onEvent()
    })
  }

  send(bytes: string | Buffer): void {
    this.socket.write(typeof bytes === 'string' ? Buffer.from(bytes, 'latin1') : bytes)
  }

  /** Waits for so many complete responses, or until the connection closes. */
  async answers(count: number): Promise<RawAnswer[]> {
    await this.#until(() => this.closed || this.#parse().length >= count)
    return [...this.#parse()]
  }

  async untilClosed(): Promise<RawAnswer[]> {
    await this.#until(() => this.closed)
    return [...this.#parse()]
  }

  /** Tests wait for hundreds of responses on one connection: each is parsed once. */
  #parse(): readonly RawAnswer[] {
    const { answers, rest } = splitAnswers(this.received.subarray(this.#parsed))
    this.#answers.push(...answers)
    this.#parsed = this.received.length - rest.length
    return this.#answers
  }

  /** Checks the condition after every event of the connection. */
  #until(condition: () => boolean): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const fail = () =>
      reject(
        new Error(`Deadline reached after receiving: ${JSON.stringify(this.received.toString('latin1'))}`),
      )
    const cancel = whenOver(ANSWER_DEADLINE_MS, fail)
    this.#onEvent = () => {
      if (condition()) resolve()
    }
    this.#onEvent()
    return promise.finally(cancel)
  }

  end(): void {
    this.socket.destroy()
  }
}

/** Sends bytes on a new connection and waits for the first response. */
export async function exchange(url: string, bytes: string | Buffer): Promise<RawAnswer> {
  const client = new RawClient(url)
  client.send(bytes)
  const [answer] = await client.answers(1)
  client.end()
  if (answer === undefined) throw new Error('The connection closed without a response')
  return answer
}

/** A valid GET request, with an optional key and further header lines. */
export function get(target: string, key?: string, ...lines: string[]): string {
  const authorization = key === undefined ? [] : [`Authorization: Bearer ${key}`]
  return [`GET ${target} HTTP/1.1`, 'Host: gw', ...authorization, ...lines, '', ''].join('\r\n')
}

export function field(answer: RawAnswer, name: string): string | undefined {
  return answer.fields.find(([other]) => other.toLowerCase() === name.toLowerCase())?.[1]
}

/** A response without the parts that may differ between two of them: the date and the request id. */
export function fingerprint(answer: RawAnswer): string {
  return `${answer.head.replace(/^(date|x-request-id): .*$/gim, '$1: -')}\n${answer.body}`
}

function splitAnswers(bytes: Buffer): { answers: RawAnswer[]; rest: Buffer } {
  const answers: RawAnswer[] = []
  let rest = bytes
  for (;;) {
    const end = rest.indexOf('\r\n\r\n')
    if (end < 0) return { answers, rest }
    const head = rest.subarray(0, end).toString('latin1')
    const [statusLine = '', ...lines] = head.split('\r\n')
    const fields = lines.map(
      line => [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 1).trim()] as const,
    )
    const status = Number(statusLine.split(' ')[1])
    const framing = bodyOf(rest.subarray(end + 4), status, fields)
    if (framing === null) return { answers, rest }
    answers.push({ status, fields, body: framing.body, head })
    rest = framing.rest
  }
}

function bodyOf(
  bytes: Buffer,
  status: number,
  fields: readonly (readonly [string, string])[],
): { body: string; rest: Buffer } | null {
  const value = (name: string) => fields.find(([other]) => other.toLowerCase() === name)?.[1]
  if (status === 204 || status === 304) return { body: '', rest: bytes }
  if (value('transfer-encoding') === 'chunked') return chunkedBodyOf(bytes)
  const length = Number(value('content-length') ?? 0)
  if (bytes.length < length) return null
  return { body: bytes.subarray(0, length).toString('utf8'), rest: bytes.subarray(length) }
}

function chunkedBodyOf(bytes: Buffer): { body: string; rest: Buffer } | null {
  const parts: Buffer[] = []
  let rest = bytes
  for (;;) {
    const end = rest.indexOf('\r\n')
    if (end < 0) return null
    const size = Number.parseInt(rest.subarray(0, end).toString('latin1'), 16)
    if (rest.length < end + 2 + size + 2) return null
    parts.push(rest.subarray(end + 2, end + 2 + size))
    rest = rest.subarray(end + 2 + size + 2)
    if (size === 0) return { body: Buffer.concat(parts).toString('utf8'), rest }
  }
}
