import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import type { Kind, TimedRequests } from './compare-times.ts'

const WARM_UP_PAIRS = 500

/** A request that is sent repeatedly, and its kind. All are built in advance, by the same code for both kinds. */
export interface Subject {
  readonly request: Buffer
  readonly kind: Kind
}

/**
 * Measures requests of both kinds in pairs, one after the other over a few keep-alive connections, each pair on one
 * connection. Subjects and their order are drawn at random.
 * @param draw a uniformly distributed integer below its argument
 * @param enough whether this number of pairs is sufficient
 */
export async function timePairs(
  url: string,
  subjects: readonly Subject[],
  draw: (below: number) => number,
  enough: (pairs: number) => boolean,
): Promise<TimedRequests> {
  const connections = await Promise.all(Array.from({ length: 4 }, () => TimedConnection.open(url)))
  const ofKind = [0, 1].map(kind => [...subjects.keys()].filter(index => subjects[index]?.kind === kind))
  const drawn: number[] = []
  const nanoseconds: number[] = []
  for (let pair = -WARM_UP_PAIRS; pair < 0 || !enough(pair); pair++) {
    const connection = connections[(pair + WARM_UP_PAIRS) % connections.length] as TimedConnection
    const firstKind = draw(2)
    for (const kind of [firstKind, 1 - firstKind]) {
      const candidates = ofKind[kind] ?? []
      const index = candidates[draw(candidates.length)] ?? 0
      const time = await connection.time(subjects[index]?.request ?? Buffer.alloc(0))
      if (pair < 0) continue
      drawn.push(index)
      nanoseconds.push(time)
    }
  }
  for (const connection of connections) connection.end()
  return {
    subjects: Uint16Array.from(drawn),
    nanoseconds: Float64Array.from(nanoseconds),
    kindOf: subjects.map(({ kind }) => kind),
  }
}

/** Assigns a kind to each half of the names at random. */
export function drawKinds(names: readonly string[], draw: (below: number) => number): Map<string, Kind> {
  const left = [...names]
  return new Map(
    names.map((_, index): [string, Kind] => {
      const [name = ''] = left.splice(draw(left.length), 1)
      return [name, index % 2 === 0 ? 0 : 1]
    }),
  )
}

class TimedConnection {
  readonly #socket: Socket
  #text = ''
  #done: (endNs: bigint) => void = () => {}
  #fail: (error: Error) => void = () => {}

  private constructor(socket: Socket) {
    this.#socket = socket
    socket.on('data', chunk => {
      const endNs = process.hrtime.bigint()
      this.#text += chunk.toString('latin1')
      if (isWhole(this.#text)) this.#done(endNs)
    })
    socket.on('close', () => this.#fail(new Error('The gateway closed a keep-alive connection')))
    socket.on('error', () => {})
  }

  static async open(url: string): Promise<TimedConnection> {
    const { hostname, port } = new URL(url)
    const socket = connect({ host: hostname, port: Number(port), noDelay: true })
    await once(socket, 'connect')
    return new TimedConnection(socket)
  }

  /** @returns nanoseconds from the first byte sent to the last received */
  async time(request: Buffer): Promise<number> {
    this.#text = ''
    const { promise, resolve, reject } = Promise.withResolvers<bigint>()
    this.#done = resolve
    this.#fail = reject
    const startNs = process.hrtime.bigint()
    this.#socket.write(request)
    return Number((await promise) - startNs)
  }

  end(): void {
    this.#socket.removeAllListeners('close').destroy()
  }
}

function isWhole(text: string): boolean {
  const headEnd = text.indexOf('\r\n\r\n')
  const length = /\r\ncontent-length: (\d+)/i.exec(text)?.[1]
  return headEnd >= 0 && text.length === headEnd + 4 + Number(length)
}
