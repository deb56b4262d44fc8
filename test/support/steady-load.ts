import { until } from './until.ts'

export interface Replica {
  readonly url: string
  inFlight: number
}

/** A client's key, and the response that every replica must give. */
export interface Holder {
  readonly name: string
  readonly secret: string
  readonly expected: string
}

/** Leaves the processor to the processes under test and to other tests. */
const PAUSE_MS = 10

/** Clients that send one request after another, each to a random replica, and record every wrong response. */
export class SteadyLoad {
  readonly replicas: Replica[] = []
  readonly holders: Holder[] = []
  readonly wrong: string[] = []
  answered = 0
  #running = true
  readonly #clients: Promise<void>[]

  constructor(clients: number) {
    this.#clients = Array.from({ length: clients }, () => this.#send())
  }

  join(url: string): Replica {
    const replica = { url, inFlight: 0 }
    this.replicas.push(replica)
    return replica
  }

  /** Stops sending to a replica and waits for its pending responses, as a load balancer does before a replica stops. */
  async leave(replica: Replica): Promise<void> {
    this.replicas.splice(this.replicas.indexOf(replica), 1)
    await until('the replica has completed its pending requests', () => replica.inFlight === 0)
  }

  /** Waits until so many further requests have completed. */
  async continueFor(requests = 300): Promise<void> {
    const target = this.answered + requests
    await until(`${requests} requests have completed`, () => this.answered >= target, 30_000)
  }

  async stop(): Promise<void> {
    this.#running = false
    await Promise.all(this.#clients)
  }

  async #send(): Promise<void> {
    while (this.#running) {
      const replica = anyOf(this.replicas)
      const holder = anyOf(this.holders)
      if (replica !== undefined && holder !== undefined) await this.#askOnce(replica, holder)
      await new Promise(resolve => setTimeout(resolve, PAUSE_MS))
    }
  }

  async #askOnce(replica: Replica, holder: Holder): Promise<void> {
    replica.inFlight++
    const answer = await send(replica.url, holder.secret)
    replica.inFlight--
    // The holder has left: no response is expected.
    if (this.holders.includes(holder) && answer !== holder.expected) {
      this.wrong.push(`${holder.name}: ${answer}, expected ${holder.expected}`)
    }
    this.answered++
  }
}

/** @returns `200`, or the code of the denial */
export async function send(url: string, secret: string): Promise<string> {
  try {
    const headers = { authorization: `Bearer ${secret}` }
    const response = await fetch(`${url}/api/v1/auth`, { headers })
    const json = (await response.json()) as { code?: string }
    return response.status === 200 ? '200' : (json.code ?? String(response.status))
  } catch (error) {
    return String(error instanceof Error ? (error.cause ?? error) : error)
  }
}

function anyOf<Item>(items: readonly Item[]): Item | undefined {
  return items[Math.floor(Math.random() * items.length)]
}
