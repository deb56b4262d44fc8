import { ReplyError } from 'ioredis'
import type { Endpoint } from '../../../src/redis/endpoint.ts'
import { type Network, Pipe } from './network.ts'
import type { Process } from './process.ts'
import type { Scheduler } from './scheduler.ts'

export type Command =
  | { readonly id: number; readonly name: 'getrange'; readonly key: string }
  | { readonly id: number; readonly name: 'write'; readonly writes: readonly RecordWrite[] }
  | { readonly id: number; readonly name: 'publish'; readonly text: string }
  | ({ readonly id: number; readonly name: 'count' } & Counted)
  | { readonly id: number; readonly name: 'subscribe' }

/** The script of `write-counter.ts`. */
interface Counted {
  readonly key: string
  readonly own: string
  readonly known: number
  /** Empty: none is published. */
  readonly text: string
}

/** The script of `announcer.ts`. */
interface RecordWrite {
  readonly key: string
  readonly text: string
  readonly version: number
  readonly unverified: string
  readonly messages: readonly string[]
}

/** A list in reply to the script. */
export type Reply = string | number | null | readonly (string | null)[]

export type ServerMessage =
  | { readonly kind: 'reply'; readonly id: number; readonly value: Reply | Error }
  | { readonly kind: 'message'; readonly text: string }
  | { readonly kind: 'closed' }

type Write =
  | { readonly kind: 'set'; readonly key: string; readonly text: string }
  | { readonly kind: 'publish'; readonly text: string }

/** One TCP connection of a client. Each side may believe that it is open after the other has forgotten it. */
export class RedisLink {
  readonly client: Process
  readonly toServer: Pipe<Command>
  readonly toClient: Pipe<ServerMessage>
  isOpenAtServer = true
  /** What had arrived when the client closed it is executed still, as a server reads up to the end of a stream. */
  isReadToTheEnd = false

  constructor(
    server: RedisServer,
    client: Process,
    parts: Parts,
    onMessage: (message: ServerMessage) => void,
  ) {
    this.client = client
    const { scheduler, network } = parts
    const way = network.way(client.name, server.name)
    this.toServer = new Pipe({
      scheduler,
      way,
      at: (atMs, run) => scheduler.atServer(atMs, run),
      deliver: command => server.receive(this, command),
    })
    this.toClient = new Pipe({
      scheduler,
      way,
      at: (atMs, run) => client.at(atMs, run),
      deliver: onMessage,
    })
  }
}

interface Parts {
  readonly scheduler: Scheduler
  readonly network: Network
}

/** Messages that an attacker remembers. */
const MAX_PUBLISHED = 64

export interface Published {
  readonly text: string
  readonly atMs: number
}

/** A Redis: it forgets what it published, and may lose what it has acknowledged. */
export class RedisServer {
  readonly name: string
  readonly endpoint: Endpoint
  isUp = true
  isReplica = false
  readonly #parts: Parts
  #data = new Map<string, string>()
  /** Every write with its time, for snapshots. */
  #log: { readonly atMs: number; readonly key: string; readonly text: string }[] = []
  readonly #published: Published[] = []
  readonly #links = new Set<RedisLink>()
  readonly #subscribers = new Set<RedisLink>()
  readonly #delayed: (() => void)[] = []
  #stalledUntilMs = 0
  #replication: Pipe<Write> | null = null

  constructor(name: string, endpoint: Endpoint, parts: Parts) {
    this.name = name
    this.endpoint = endpoint
    this.#parts = parts
  }

  accept(link: RedisLink): void {
    this.#links.add(link)
  }

  /** A command has arrived. While the server is stalled, it waits. */
  receive(link: RedisLink, command: Command): void {
    if (!this.isUp || !link.isOpenAtServer) {
      if (this.isUp) link.toClient.send({ kind: 'closed' })
      return
    }
    if (this.#stalledUntilMs > this.#parts.scheduler.nowMs) {
      this.#delayed.push(() => this.#execute(link, command))
    } else this.#execute(link, command)
  }

  stall(durationMs: number): void {
    const { scheduler } = this.#parts
    this.#stalledUntilMs = Math.max(this.#stalledUntilMs, scheduler.nowMs + durationMs)
    scheduler.atServer(this.#stalledUntilMs, () => {
      if (this.#stalledUntilMs > scheduler.nowMs) return
      for (const run of this.#delayed.splice(0)) run()
    })
  }

  /** @param isNoticed false if the machine vanishes, so that no client notices */
  crash(isNoticed: boolean): void {
    this.isUp = false
    this.#delayed.length = 0
    this.#replication = null
    this.dropLinks(isNoticed)
  }

  /** @param keptUntilMs what was written later is lost */
  restart(keptUntilMs: number): void {
    this.isUp = true
    this.#stalledUntilMs = 0
    this.#log = this.#log.filter(({ atMs }) => atMs <= keptUntilMs)
    this.#data = new Map(this.#log.map(({ key, text }) => [key, text]))
  }

  /** @param isNoticed false for connections that only the server forgets */
  dropLinks(isNoticed: boolean, which: (link: RedisLink) => boolean = () => true): void {
    for (const link of this.#links) {
      if (!which(link)) continue
      link.isOpenAtServer = false
      if (isNoticed) link.toClient.send({ kind: 'closed' })
      this.#links.delete(link)
      this.#subscribers.delete(link)
    }
  }

  /** Becomes a replica with everything that the primary has; Sentinel closes its connections. */
  follow(primary: RedisServer): void {
    this.isReplica = true
    this.#replication = null
    this.#data = new Map(primary.#data)
    this.#log = [...primary.#log]
    this.dropLinks(true)
    primary.#replication = new Pipe({
      scheduler: this.#parts.scheduler,
      way: this.#parts.network.way(primary.name, this.name),
      at: (atMs, run) => this.#parts.scheduler.atServer(atMs, run),
      deliver: write => this.#apply(write),
    })
  }

  promote(): void {
    this.isReplica = false
  }

  stopReplicating(): void {
    this.#replication?.close()
    this.#replication = null
  }

  /** As if it had been there from the start. */
  load(key: string, text: string): void {
    this.#data.set(key, text)
    this.#log.push({ atMs: 0, key, text })
  }

  /** @param text empty: the key is deleted */
  set(key: string, text: string): void {
    this.#write({ kind: 'set', key, text })
  }

  publish(text: string): void {
    this.#write({ kind: 'publish', text })
  }

  /** What consoles published last, as an attacker has read it. */
  get published(): readonly Published[] {
    return this.#published
  }

  textOf(key: string): string {
    return this.#data.get(key) ?? ''
  }

  #execute(link: RedisLink, command: Command): void {
    if (!link.isOpenAtServer && !link.isReadToTheEnd) return
    link.toClient.send({ kind: 'reply', id: command.id, value: this.#resultOf(link, command) })
  }

  #resultOf(link: RedisLink, command: Command): Reply | Error {
    switch (command.name) {
      case 'getrange':
        return this.textOf(command.key)
      case 'subscribe':
        this.#subscribers.add(link)
        return 1
      case 'publish':
        this.#publishFor(command.text)
        return this.#subscribers.size
      case 'count':
        return this.#count(command)
      case 'write':
        return this.#writeAll(command.writes)
    }
  }

  #count({ key, own, known, text }: Counted): readonly [string, string] | Error {
    if (this.isReplica) return new ReplyError("READONLY You can't write against a read only replica.")
    const list = this.textOf(key).slice(0, 4_096)
    const entries = list.split(',').slice(0, -1)
    const held = entries.find(entry => entry.startsWith(`${own}=`))
    const count = Number(held?.split('=')[1] ?? 0) + 1
    const all = [`${own}=${count}`, ...entries.filter(entry => entry !== held)]
    this.#write({ kind: 'set', key, text: all.map(entry => `${entry},`).join('') })
    if (text !== '' && count > known) this.#publishFor(text)
    return [String(count), text === '' ? '' : list]
  }

  #writeAll(writes: readonly RecordWrite[]): (string | null)[] | Error {
    const held: (string | null)[] = []
    for (const write of writes) {
      const result = this.#writeAndPublish(write)
      if (result instanceof Error) return result
      held.push(result)
    }
    return held
  }

  #writeAndPublish({ key, text, version, unverified, messages }: RecordWrite): string | null | Error {
    const held = this.textOf(key)
    if (held !== text) {
      const heldVersion = Number(/"version":(\d+)/.exec(held)?.[1] ?? 0)
      const isOther = heldVersion === version && idIn(held) !== idIn(text)
      if ((heldVersion > version || isOther) && held !== unverified) return held
      if (this.isReplica) return new ReplyError("READONLY You can't write against a read only replica.")
      this.#write({ kind: 'set', key, text })
    }
    for (const message of messages) this.#publishFor(message)
    return null
  }

  /** For a console. */
  #publishFor(text: string): void {
    this.#published.push({ text, atMs: this.#parts.scheduler.nowMs })
    if (this.#published.length > MAX_PUBLISHED) this.#published.shift()
    this.publish(text)
  }

  #write(write: Write): void {
    this.#apply(write)
    if (!this.isReplica) this.#replication?.send(write)
  }

  #apply(write: Write): void {
    if (write.kind === 'set') {
      this.#data.set(write.key, write.text)
      this.#log.push({ atMs: this.#parts.scheduler.nowMs, key: write.key, text: write.text })
      return
    }
    for (const link of this.#subscribers) link.toClient.send({ kind: 'message', text: write.text })
  }
}

function idIn(text: string): string | undefined {
  return /"id":"(\w+)"/.exec(text)?.[1]
}
