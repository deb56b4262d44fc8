import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { type TcpEnd, tcpEnds } from '../support/tcp-table.ts'
import { until } from '../support/until.ts'
import { courseOf, type SeenAnswer, type SeenConnection } from './connection-law.ts'
import { type ConnectionPlan, type Piece, piecesOf, type Step, segmentsOf } from './connection-plans.ts'
import { type Reading, readResponse, valuesOf } from './strict-answer.ts'

/** Longer than every timeout of the listeners under test. */
export const PATIENCE_MS = 10_000
/** Pause between two segments, so that they are read separately. */
const SEGMENT_PAUSE_MS = 2
const SLOW_READ_PAUSE_MS = 10
/** Size of a write, and so the precision of the count of bytes that the kernel has accepted. */
const WRITE_BYTES = 64 * 1024

/** Bytes of a connection that have passed the kernels, at one moment. */
export interface Passed {
  /** From the client to the listening program. */
  readonly read: number
  /** From the program to its kernel, at most. */
  readonly answered: number
}

/** Performs the steps of one connection and records the responses. */
export class FuzzedConnection {
  readonly answers: SeenAnswer[] = []
  /** Sizes of all chunks that the client received. */
  received = 0
  readonly #plan: ConnectionPlan
  readonly #values: Readonly<Record<string, string>>
  readonly #port: number
  readonly #socket: Socket
  readonly #sent: Piece[] = []
  readonly #expanded: Piece[]
  #rest = Buffer.alloc(0)
  #broken: string | null = null
  #ended: SeenConnection['ended'] = 'open'
  #reads: 'all' | 'slowly' | 'nothing' = 'all'
  #wake = () => {}
  /** Resolves when everything sent so far has been written. */
  #written: Promise<void> = Promise.resolve()
  readonly #late: string[] = []

  /** @param values of placeholders */
  constructor(url: string, plan: ConnectionPlan, values: Readonly<Record<string, string>>) {
    const { hostname, port } = new URL(url)
    this.#plan = plan
    this.#values = values
    this.#port = Number(port)
    this.#expanded = piecesOf(plan).flatMap(piece => Array<Piece>(piece.repeat ?? 1).fill(piece))
    this.#socket = connect({ host: hostname, port: this.#port, noDelay: true, allowHalfOpen: true })
    this.#socket
      .on('data', chunk => this.#receive(chunk))
      .on('end', () => this.#end('closed'))
      .on('error', () => this.#end('reset'))
      .on('close', () => this.#end('closed'))
  }

  get seen(): Omit<SeenConnection, 'effects'> {
    const rest =
      this.#broken ?? (this.#rest.length === 0 ? null : this.#rest.toString('latin1').slice(0, 200))
    return { answers: this.answers, rest, ended: this.#ended }
  }

  /** @returns what took too long */
  async run(): Promise<string[]> {
    const isConnected = await once(this.#socket, 'connect').then(
      () => true,
      () => false,
    )
    if (!isConnected) return ['the connection was refused']
    const last = this.#plan.steps.at(-1)?.do
    // No program holds a connection before it is accepted, or after it is closed.
    if (last === 'stay')
      await until('the connection is accepted', async () => (await this.#ends())[1]?.isHeld)
    for (const step of this.#plan.steps) await this.#do(step)
    try {
      if (last === 'stay') return [...this.#late, ...(await this.#outstayed())]
      if (last !== 'destroy') {
        this.#read('all')
        await this.#settled(true)
      }
      return this.#late
    } finally {
      this.destroy()
    }
  }

  destroy(): void {
    this.#socket.destroy()
  }

  /** Bytes passed so far, or null once the listener has ended its side: it discards what it still reads. */
  async passed(): Promise<Passed | null> {
    const written = this.#socket.bytesWritten - this.#socket.writableLength
    const { received } = this
    const [client, listener] = await this.#ends()
    if (client === null || listener === null || listener.isEnded) return null
    // The table is newer than the counts, so that neither figure is too high.
    return {
      read: written - client.unsent - listener.unread,
      answered: received + client.unread + listener.unsent,
    }
  }

  #ends(): Promise<[client: TcpEnd | null, listener: TcpEnd | null]> {
    return tcpEnds(this.#socket.localPort ?? 0, this.#port)
  }

  async #do(step: Step): Promise<void> {
    switch (step.do) {
      case 'send':
        this.#sent.push(...step.pieces)
        this.#written = this.#written.then(() => this.#send(segmentsOf(step.pieces, this.#values)))
        // The kernel accepts only a part of a flood, and the next steps may depend on it.
        return isFlood(this.#plan) ? undefined : this.#written
      case 'await_answers':
        return this.#reads === 'nothing' ? undefined : this.#settled(false)
      case 'stop_reading':
        return this.#read('nothing')
      case 'read':
        return this.#read('all')
      case 'read_slowly':
        return this.#read('slowly')
      case 'half_close':
        await this.#written
        this.#socket.end()
        return
      case 'destroy':
        this.destroy()
        return
      case 'stay':
        return
    }
  }

  async #send(segments: readonly Buffer[]): Promise<void> {
    for (const segment of segments) {
      for (let at = 0; at < segment.length; at += WRITE_BYTES) {
        if (!this.#socket.writable) return
        const bytes = segment.subarray(at, at + WRITE_BYTES)
        await new Promise<unknown>(resolve => this.#socket.write(bytes, resolve))
      }
      await sleep(SEGMENT_PAUSE_MS)
    }
  }

  #read(reads: 'all' | 'slowly' | 'nothing'): void {
    this.#reads = reads
    if (reads === 'nothing') this.#socket.pause()
    else this.#socket.resume()
  }

  /** Waits until everything sent has a response, the connection has ended, or the deadline passes. */
  async #settled(atTheEnd: boolean): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#wake = () => {
      const { answered, ends } = courseOf(this.#sent, this.answers)
      const isClosing = ends || (atTheEnd && this.#plan.steps.some(step => step.do === 'half_close'))
      const isAnswered = this.answers.length >= answered.length && !(atTheEnd && isClosing)
      if (this.#ended !== 'open' || this.#broken !== null || isAnswered) resolve()
    }
    const patience = setTimeout(() => {
      this.#late.push(`${this.answers.length} responses came within the deadline, and no more`)
      resolve()
    }, PATIENCE_MS)
    this.#wake()
    await promise
    clearTimeout(patience)
  }

  async #outstayed(): Promise<string[]> {
    const hasLeft = async () => (await this.#ends())[1]?.isHeld !== true
    return until('the listener closes the connection', hasLeft, PATIENCE_MS).then(
      () => [],
      () => ['a connection that is not read does not close'],
    )
  }

  #receive(chunk: Buffer): void {
    this.received += chunk.length
    this.#rest = Buffer.concat([this.#rest, chunk])
    let read = 0
    for (;;) {
      const answer = readResponse(this.#rest, read)
      const end = this.#endOf(answer, read)
      if (end === null) {
        if (answer.kind === 'broken') this.#broken = answer.why
        break
      }
      read = end
    }
    this.#rest = this.#rest.subarray(read)
    if (this.#reads === 'slowly') {
      this.#socket.pause()
      setTimeout(() => this.#reads === 'slowly' && this.#socket.resume(), SLOW_READ_PAUSE_MS)
    }
    this.#wake()
  }

  /** Records a complete response. @returns its end, or null if it is incomplete */
  #endOf(reading: Reading, start: number): number | null {
    const { head } = reading
    if (head === null || this.#rest.length === start) return null
    const isBodiless = head.status >= 200 && this.#expanded[this.answers.length]?.bodiless === true
    const headEnd = this.#rest.indexOf('\r\n\r\n', start) + 4
    const end = isBodiless ? headEnd : reading.kind === 'whole' ? reading.end : null
    if (end === null || head.status < 200) return end
    this.answers.push({
      status: head.status,
      id: valuesOf(head.fields, 'x-request-id')[0] ?? null,
      closes: valuesOf(head.fields, 'connection').some(value => value.toLowerCase() === 'close'),
    })
    return end
  }

  #end(ended: 'closed' | 'reset'): void {
    if (this.#ended === 'open') this.#ended = ended
    this.#wake()
  }
}

/** Whether it sends more than a kernel accepts at once. */
export function isFlood(plan: ConnectionPlan): boolean {
  return piecesOf(plan).some(({ repeat = 1 }) => repeat >= 1000)
}
