import { readdirSync, readlinkSync } from 'node:fs'
import { until } from './until.ts'

/** What a process holds after garbage collection: bytes and counts. */
export interface Holdings {
  readonly heapBytes: number
  readonly residentBytes: number
  /** Open file descriptors, and the sockets among them. */
  readonly descriptors: number
  readonly sockets: number
  /** Live timers, including those that do not keep the process alive. */
  readonly timers: number
}

interface Reply {
  readonly id?: number
  readonly error?: { readonly message: string }
  readonly result?: unknown
}
interface Evaluated {
  readonly result: { readonly objectId?: string; readonly value?: unknown }
}

/** Evaluates to the prototype of all timers; the timer that reveals it is cleared before the count. */
const TIMER = 'Object.getPrototypeOf((timer => (clearTimeout(timer), timer))(setTimeout(() => {}, 0)))'

/** A process started with the inspector and measured from outside, without any code in it for the measurement. */
export class InspectedProcess {
  readonly #pid: number
  readonly #socket: WebSocket
  readonly #waiting = new Map<number, (reply: Reply) => void>()
  #asked = 0

  private constructor(pid: number, socket: WebSocket) {
    this.#pid = pid
    this.#socket = socket
    socket.addEventListener('message', event => {
      const reply = JSON.parse(String(event.data)) as Reply
      this.#waiting.get(reply.id ?? 0)?.(reply)
      this.#waiting.delete(reply.id ?? 0)
    })
  }

  /** @param inspectorPort as in `NODE_OPTIONS=--inspect=127.0.0.1:PORT` */
  static async attach(pid: number, inspectorPort: number): Promise<InspectedProcess> {
    const targets = await until('the inspector answers', async () => {
      const response = await fetch(`http://127.0.0.1:${inspectorPort}/json/list`).catch(() => null)
      return response === null ? null : ((await response.json()) as { webSocketDebuggerUrl: string }[])
    })
    const socket = new WebSocket(targets[0]?.webSocketDebuggerUrl ?? '')
    await new Promise((resolve, reject) => {
      socket.addEventListener('open', resolve)
      socket.addEventListener('error', reject)
    })
    return new InspectedProcess(pid, socket)
  }

  async measure(): Promise<Holdings> {
    const timers = await this.#countTimers()
    // The second collection frees what finalisers of the first one released.
    for (const _ of [1, 2, 3]) await this.#send('HeapProfiler.collectGarbage')
    const memory = (await this.#evaluate('process.memoryUsage()', true)).value as NodeJS.MemoryUsage
    return {
      heapBytes: memory.heapUsed,
      residentBytes: memory.rss,
      ...this.#descriptors(),
      timers,
    }
  }

  /** Excludes the one connection of the inspector itself. */
  #descriptors(): { descriptors: number; sockets: number } {
    const folder = `/proc/${this.#pid}/fd`
    const targets = readdirSync(folder).map(name => {
      try {
        return readlinkSync(`${folder}/${name}`)
      } catch {
        return '' // Closed in the meantime.
      }
    })
    return {
      descriptors: targets.filter(target => target !== '').length,
      sockets: targets.filter(target => target.startsWith('socket:')).length,
    }
  }

  detach(): void {
    this.#socket.close()
  }

  async #countTimers(): Promise<number> {
    const { objectId } = await this.#evaluate(TIMER, false)
    const { objects } = (await this.#send('Runtime.queryObjects', {
      prototypeObjectId: objectId,
      objectGroup: 'count',
    })) as { objects: { objectId: string } }
    const { result } = (await this.#send('Runtime.callFunctionOn', {
      objectId: objects.objectId,
      // A timer that has fired or was cleared is only waiting for garbage collection.
      functionDeclaration: 'function () { return this.filter(timer => !timer._destroyed).length }',
      returnByValue: true,
    })) as Evaluated
    await this.#send('Runtime.releaseObjectGroup', { objectGroup: 'count' })
    return Number(result.value)
  }

  async #evaluate(expression: string, returnByValue: boolean): Promise<Evaluated['result']> {
    const parameters = { expression, returnByValue, objectGroup: 'count' }
    return ((await this.#send('Runtime.evaluate', parameters)) as Evaluated).result
  }

  async #send(method: string, params: object = {}): Promise<unknown> {
    const id = ++this.#asked
    const { promise, resolve } = Promise.withResolvers<Reply>()
    this.#waiting.set(id, resolve)
    this.#socket.send(JSON.stringify({ id, method, params }))
    const { error, result } = await promise
    if (error !== undefined) throw new Error(`${method}: ${error.message}`)
    return result
  }
}
