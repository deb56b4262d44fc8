import { EventEmitter } from 'node:events'
import type { Socket } from 'node:net'
import type { Redis } from 'ioredis'
import { rememberSocket } from '../../../src/redis/clients.ts'
import type { FindServer } from '../../../src/redis/endpoint.ts'
import { type RedisSettings, reconnectDelayMs } from '../../../src/redis/options.ts'
import { Deadline } from './deadline.ts'
import type { Process } from './process.ts'
import type { Random } from './random.ts'
import { type Command, RedisLink, type Reply, type ServerMessage } from './redis-server.ts'
import type { RedisSite } from './redis-site.ts'

const SILENCE_MS = 1_000

interface Parts {
  readonly process: Process
  readonly site: RedisSite
  readonly random: Random
  readonly find: FindServer
  readonly settings: Pick<RedisSettings, 'commandTimeoutMs' | 'connectTimeoutMs'>
}

interface Waiting {
  readonly resolve: (value: Reply) => void
  readonly reject: (error: Error) => void
  readonly dueMs: number
  /** Its promise is rejected, and its reply is still expected. */
  isLate: boolean
}

type Omitting<Type, Key extends string> = Type extends unknown ? Omit<Type, Key> : never

/**
 * The part of an ioredis client that Postern uses, with the options of `safeOptions`: no offline queue, no repeated command,
 * commands that fail in time, a connection that closes after a second of silence.
 */
export class SimulatedRedis extends EventEmitter {
  status: 'wait' | 'connecting' | 'ready' | 'disconnecting' | 'close' | 'reconnecting' | 'end' = 'wait'
  readonly options: { reconnectOnError?: (error: Error) => boolean | 1 | 2; retryStrategy?: unknown } = {}
  readonly #process: Process
  readonly #site: RedisSite
  readonly #random: Random
  readonly #find: FindServer
  readonly #settings: Parts['settings']
  readonly #waiting = new Map<number, Waiting>()
  #link: RedisLink | null = null
  #nextId = 0
  #attempts = 0
  #isStopped = false
  readonly #silence: Deadline
  /** Of the command that was sent first. */
  readonly #timeout: Deadline

  constructor(parts: Parts) {
    super()
    this.#process = parts.process
    this.#site = parts.site
    this.#random = parts.random
    this.#find = parts.find
    this.#settings = parts.settings
    this.#silence = new Deadline(parts.process, () => this.#closed())
    this.#timeout = new Deadline(parts.process, () => this.#rejectLate())
  }

  async connect(): Promise<void> {
    this.status = 'connecting'
    try {
      const endpoint = await this.#find()
      if (this.#isStopped) return
      const server = this.#site.serverAt(endpoint)
      const socket = { remoteAddress: endpoint.host, remotePort: endpoint.port, writableCorked: 1 }
      // The part of a socket that is read: where it leads to, and that it needs no corking.
      rememberSocket(this as unknown as Redis, socket as unknown as Socket)
      await this.#site.dial(this.#process, server, this.#settings.connectTimeoutMs)
      if (this.#isStopped || this.status !== 'connecting') return
      const link = new RedisLink(server, this.#process, this.#site.parts, message => {
        if (this.#link === link) this.#receive(message)
      })
      server.accept(link)
      this.#link = link
      this.status = 'ready'
      this.#attempts = 0
      this.emit('ready')
    } catch (error) {
      if (this.#isStopped) return
      this.emit('error', error)
      this.#closed()
    }
  }

  /** As `stream.end()`: what is on its way still arrives until the other side has closed too. */
  disconnect(reconnect = false): void {
    if (!reconnect) this.#isStopped = true
    if (this.status !== 'ready') return
    this.status = 'disconnecting'
    const link = this.#link
    this.#process.at(this.#site.nowMs + this.#random.between(0, this.#settings.commandTimeoutMs), () => {
      if (this.#link === link) this.#closed()
    })
  }

  async getrangeBuffer(key: string): Promise<Buffer> {
    const text = String(await this.#send({ name: 'getrange', key }))
    if (text !== '') this.#site.onRecord(this.#process, key)
    return Buffer.from(text)
  }

  /** The scripts are those of `announcer.ts`, `mark-entry.ts` and `write-counter.ts`, and the probe, which has no value for its keys. */
  async callBuffer(
    _command: string,
    _script: string,
    count: number,
    ...values: readonly (string | number | Buffer)[]
  ): Promise<(number | Buffer | null)[]> {
    const keys = values.slice(0, count)
    if (values.length === count + 1) {
      await this.#send({ name: 'getrange', key: String(keys[0]) })
      return []
    }
    if (values.length === count + 2) {
      const [key, text] = values.map(String)
      const mark = { key: key ?? '', text: text ?? '', version: 0, unverified: '', messages: [] }
      await this.#send({ name: 'write', writes: [mark] })
      return []
    }
    if (values.length === count + 4) {
      const [key = '', own = '', known, , text = ''] = values.map(String)
      const counted = await this.#send({ name: 'count', key, own, known: Number(known), text })
      if (!Array.isArray(counted)) throw new Error('The reply to this script is a list')
      const [number, list] = counted
      return [Number(number), Buffer.from(String(list))]
    }
    let at = count + 1
    const writes = keys.map(key => {
      const [text, , version, unverified, messages] = values.slice(at, at + 5)
      const from = at + 5
      at = from + Number(messages)
      return {
        key: String(key),
        text: String(text),
        version: Number(version),
        unverified: String(unverified),
        messages: values.slice(from, at).map(String),
      }
    })
    const held = await this.#send({ name: 'write', writes })
    if (!Array.isArray(held)) throw new Error('The reply to a script is a list')
    return held.map(entry => (entry === null ? null : Buffer.from(entry)))
  }

  async publish(_channel: string, text: string): Promise<number> {
    return Number(await this.#send({ name: 'publish', text }))
  }

  async subscribe(_channel: string): Promise<unknown> {
    return await this.#send({ name: 'subscribe' })
  }

  #send(command: Omitting<Command, 'id'>): Promise<Reply> {
    const link = this.#link
    if (link === null || this.status !== 'ready') {
      return Promise.reject(new Error("Stream isn't writeable and enableOfflineQueue options is false"))
    }
    const { promise, resolve, reject } = Promise.withResolvers<Reply>()
    const id = this.#nextId++
    const dueMs = this.#process.clock.monotonicMs() + this.#settings.commandTimeoutMs
    this.#waiting.set(id, { resolve, reject, dueMs, isLate: false })
    if (this.#waiting.size === 1) this.#watchSilence()
    if (!this.#timeout.isSet) this.#timeout.set(dueMs)
    link.toServer.send({ ...command, id })
    return promise
  }

  #receive(message: ServerMessage): void {
    if (message.kind === 'closed') this.#closed()
    else if (message.kind === 'reply') this.#settle(message.id, message.value)
    else {
      this.#site.onMessage(this.#process, message.text)
      this.emit('message', '', message.text)
    }
  }

  #settle(id: number, value: Reply | Error): void {
    const waiting = this.#waiting.get(id)
    this.#waiting.delete(id)
    this.#watchSilence()
    if (!(value instanceof Error)) {
      waiting?.resolve(value)
      return
    }
    if (this.options.reconnectOnError?.(value) === true) this.disconnect(true)
    waiting?.reject(value)
  }

  #watchSilence(): void {
    const silenceMs = Math.max(SILENCE_MS, this.#settings.commandTimeoutMs)
    if (this.#waiting.size === 0) this.#silence.clear()
    else this.#silence.set(this.#process.clock.monotonicMs() + silenceMs)
  }

  #rejectLate(): void {
    const nowMs = this.#process.clock.monotonicMs()
    for (const waiting of this.#waiting.values()) {
      if (waiting.dueMs > nowMs + 1e-6) {
        this.#timeout.set(waiting.dueMs)
        return
      }
      if (!waiting.isLate) waiting.reject(new Error('Command timed out'))
      waiting.isLate = true
    }
  }

  #closed(): void {
    const link = this.#link
    this.#link = null
    this.#silence.clear()
    this.#timeout.clear()
    if (link !== null) {
      link.toServer.close()
      link.toClient.close()
      this.#site.closeAtServer(link)
    }
    this.status = 'close'
    this.emit('close')
    for (const { reject } of this.#waiting.values()) reject(new Error('Connection is closed.'))
    this.#waiting.clear()
    if (this.#isStopped) {
      this.status = 'end'
      return
    }
    this.status = 'reconnecting'
    this.emit('reconnecting')
    const delayMs = reconnectDelayMs(++this.#attempts, () => this.#random.next())
    this.#process.timers.after(delayMs, () => {
      if (!this.#isStopped) void this.connect()
    })
  }
}
